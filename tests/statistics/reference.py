# Prints the reference values of the tests in crates/ktax-stats/src/timed/, computed in ways other than ktax's.
# Run with Python 3.11.7, numpy 2.4.6, scipy 1.17.1, statsmodels 0.15.0.
import itertools
import numpy as np
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(2026)


def show(name, values):
    print(name, [float(v) for v in np.atleast_1d(values)])


def walsh(d):
    return np.sort([(d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d))])


def enumerated(d):
    """Two-sided p by all 2^n signs, zeros as in Pratt; no dynamic programming."""
    d = np.asarray(d, float)
    ranks = stats.rankdata(np.abs(d))[d != 0]
    seen = ranks[d[d != 0] > 0].sum()
    middle = ranks.sum() / 2
    signs = np.array(list(itertools.product([0, 1], repeat=len(ranks))))
    return float(np.mean(np.abs(signs @ ranks - middle) >= abs(seen - middle) - 1e-9))


print("# signed rank, no ties: scipy's exact p; the interval from wilcoxon() itself, by bisection")
d = np.round(rng.normal(0.01, 0.03, 25), 6)
show("d25", d)
show("p", stats.wilcoxon(d, method="exact").pvalue)
show("estimate", np.median(walsh(d)))
for alpha in (0.05, 0.001):
    w = walsh(d)
    gaps = (w[1:] + w[:-1]) / 2
    kept = [stats.wilcoxon(d - g, method="exact").pvalue > alpha for g in gaps]
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    show(f"interval {alpha}", (w[first], w[last + 1]))
print("# ties and zeros, enumerated")
for d in ([0, 0, 1, 1, 2, -1, 3, 5, 5, -2, 4, 4], [1] * 9 + [-1], [0, 0, 0, 1, 2], [2, 2, -2, 2]):
    show(f"p {d}", enumerated(d))
print("# untied sums, n = 60 and 300: scipy's exact tails of the sum")
for n, sums in ((60, (400, 640, 900)), (200, (6000, 8400, 10000)), (300, (14000, 18000, 22000))):
    if n <= 200:
        from scipy.stats._wilcoxon import WilcoxonDistribution
        dist = WilcoxonDistribution(np.array(n))
        show(f"n {n} {sums}", [2 * float(dist.cdf(s)) for s in sums])
    else:
        counts = [1]
        for r in range(1, n + 1):  # Integers of any size.
            new = counts + [0] * r
            for i, c in enumerate(counts):
                new[i + r] += c
            counts = new
        show(f"n {n} {sums}", [2 * (sum(counts[: s + 1]) * 10**40 >> n) / 10**40 for s in sums])

print("# looks: Simpson on a fine grid, and scipy's root finder")


def crossing(c, looks, n=1501):
    x = np.linspace(-c, c, n)
    weight = np.ones(n)
    weight[1:-1:2], weight[2:-1:2] = 4, 2
    weight *= (x[1] - x[0]) / 3
    kernel = stats.norm.pdf(x[:, None] - x[None, :])
    f = stats.norm.pdf(x)
    for _ in range(looks - 1):
        f = kernel @ (weight * f)
    return 1 - (weight * f).sum()


for looks in (2, 5):
    for alpha in (0.05, 0.01, 0.0025):
        c = optimize.brentq(lambda c: crossing(c, looks) - alpha, 1, 12, xtol=1e-12)
        show(f"barrier {looks} {alpha}", c)
show("crossing(5 looks) at 3, 6", (crossing(3, 5), crossing(6, 5)))

print("# families")
p = [0.01, 0.04, 0.03, 0.005, 0.55, 0.04, 0.2]
show("holm", multipletests(p, method="holm")[1])
show("benjamini-hochberg", stats.false_discovery_control(p))

print("# spread")
groups = [[1.0, 1.2, 0.9], [1.5, 1.7], [0.7, 0.8, 0.75, 0.9, 0.6], [1.1]]
f = stats.f_oneway(*groups).statistic
sizes = np.array([len(g) for g in groups])
n0 = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1)
within = sum(np.var(g) * len(g) for g in groups) / (sizes.sum() - len(sizes))
show("between, within, share", ((f - 1) * within / n0, within, (f - 1) / (f - 1 + n0)))
apart = [abs(a - b) for g in groups for a, b in itertools.combinations(g, 2)]
show("shamos", np.median(apart) / (np.sqrt(2) * stats.norm.ppf(0.75)))
