use super::*;
use proptest::prelude::*;

/// Documentation/filesystems/proc.rst, 1.7: a machine with four CPUs.
const DOCUMENTED: &str = "\
cpu  237902850 368826709 106375398 1873517540 1135548 0 14507935 0 0 0
cpu0 60045249 91891769 26331539 468411416 495718 0 5739640 0 0 0
cpu1 59746288 91759249 26609887 468860630 312281 0 4384817 0 0 0
cpu2 59489247 92985423 26904446 467808813 171668 0 2268998 0 0 0
cpu3 58622065 92190267 26529524 468436680 155879 0 2114478 0 0 0
intr 8688370575 8 3373 0 0 0 0 0 0 1 40791 0 0 353317 0 0 0 0 224789828 0 0 0
ctxt 22848221062
btime 1605316999
processes 746787147
procs_running 2
procs_blocked 0
softirq 12121874454 100099120 3938138295 127375644 2795979 187870761 0 173808342 3072582055
";

#[test]
fn the_documents_machine_is_read() {
    let stat = Stat::parse(DOCUMENTED).unwrap();
    assert_eq!(stat.cpus.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    let busy = 237_902_850 + 368_826_709 + 106_375_398 + 14_507_935;
    let idle = 1_873_517_540 + 1_135_548;
    assert_eq!(stat.all, Ticks { busy, idle, steal: 0 });
    // What the document says: the first line is the sum of the others, here but for rounding.
    let sum: u64 = stat.cpus.values().map(|ticks| ticks.total()).sum();
    assert!(sum.abs_diff(stat.all.total()) < 10, "{sum} and {}", stat.all.total());
}

#[test]
fn steal_is_the_eighth_and_guests_are_not_counted_twice() {
    let stat = Stat::parse("cpu  1 2 4 8 16 32 64 128 256 512\n").unwrap();
    assert_eq!(stat.all, Ticks { busy: 1 + 2 + 4 + 32 + 64, idle: 8 + 16, steal: 128 });
    assert_eq!(Stat::parse("cpu  1 2 4 8 16 32 64\n").unwrap().all.steal, 0);
    for text in ["", "cpu  1 2 4\n", "cpu  1 2 4 8 x 32 64\n", "intr 1\ncpu  1 2 4 8 16 32 64\n"] {
        assert_eq!(Stat::parse(text), None, "{text}");
    }
}

#[test]
fn own_time_is_that_of_threads_and_children() {
    // The fields of proc(5), with a name that looks like some of them.
    let text = "4242 (tmux: a) 0 (b)) S 1 4242 4242 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0";
    assert_eq!(own(text), Some(3520));
    assert_eq!(own("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000"), None);
    assert_eq!(own("1 (a) S 1 1 1 0 -1 0 1 2 3 4 100 20 3000 -1 20"), None);
    assert_eq!(own(""), None);
}

#[test]
fn nothing_of_nothing_is_nothing_and_all_is_all() {
    assert_eq!(percent(0, 0), 0.0);
    assert_eq!(percent(1, 8), 12.5);
    // A hundred times this, rounded, is more than a hundred times.
    let many = 6_338_784_093_682_857_471;
    assert_eq!(percent(many, many), 100.0);
}

proptest! {
    #[test]
    fn any_text_is_survived(text in ".*", tail in "[ 0-9()a-z\n]*") {
        let _ = (Stat::parse(&text), Stat::parse(&format!("cpu {tail}")), own(&text), own(&tail));
    }

    #[test]
    fn what_is_written_is_read(fields in any::<[u32; 10]>(), name in "[ -~]*") {
        let sum = |at: &[usize]| at.iter().map(|at| u64::from(fields[*at])).sum::<u64>();
        let line = fields.map(|field| field.to_string()).join(" ");
        let stat = Stat::parse(&format!("cpu  {line}\ncpu7 {line}\n")).unwrap();
        let idle = sum(&[3, 4]);
        let expected = Ticks { busy: sum(&[0, 1, 2, 5, 6]), idle, steal: sum(&[7]) };
        prop_assert_eq!(stat.all, expected);
        prop_assert_eq!(stat.cpus, BTreeMap::from([(7, expected)]));
        // Eleven fields, of which the last four are times.
        let own_line = format!("7 ({name}) R {line} {} 20 0", fields[..4].iter()
            .map(|field| field.to_string()).collect::<Vec<_>>().join(" "));
        prop_assert_eq!(own(&own_line), Some(sum(&[0, 1, 2, 3])));
    }

    #[test]
    fn differences_never_underflow(a in any::<[u64; 3]>(), b in any::<[u64; 3]>()) {
        let ticks = |[busy, idle, steal]: [u64; 3]| Ticks { busy, idle, steal };
        let since = ticks(a).since(ticks(b));
        prop_assert!(since.busy <= a[0] && since.idle <= a[1] && since.steal <= a[2]);
        prop_assert!((0.0..=100.0).contains(&percent(since.busy, since.total())));
    }
}
