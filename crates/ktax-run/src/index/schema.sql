-- What the store has, as tables that anyone may query: docs/history.md explains them. Nothing here
-- is the only copy of anything: ktax makes it again from the store.
CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,           -- the release, else the build-id
  package_date TEXT,            -- 2026-01-31
  arch TEXT NOT NULL
) STRICT;
CREATE TABLE subject (
  id INTEGER PRIMARY KEY,
  kernel INTEGER NOT NULL REFERENCES kernel,
  boot_line TEXT NOT NULL,
  UNIQUE (kernel, boot_line)
) STRICT;
CREATE TABLE conditions (       -- counts compare only within the same
  id INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE,
  engine TEXT NOT NULL,
  qemu TEXT NOT NULL,
  machine TEXT NOT NULL,
  cpu TEXT NOT NULL,
  memory_mib INTEGER NOT NULL,
  guest TEXT NOT NULL,          -- SHA-256 of the guest programs
  layouts INTEGER NOT NULL,
  seed TEXT NOT NULL            -- 64 bits, which an INTEGER does not have without a sign
) STRICT;
CREATE TABLE workload (
  id INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE,
  row TEXT NOT NULL,
  operation TEXT NOT NULL,
  ops INTEGER NOT NULL
) STRICT;
CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  object TEXT NOT NULL UNIQUE,  -- the name of its file in the store
  stamp TEXT NOT NULL,          -- of that file: its size, and when it was written
  subject INTEGER NOT NULL REFERENCES subject,
  conditions INTEGER NOT NULL REFERENCES conditions,
  workload INTEGER NOT NULL REFERENCES workload,
  asked TEXT NOT NULL,          -- the kernel as it was asked for: debian:cloud-amd64, git:v6.12
  source TEXT NOT NULL,         -- where it came from: debian:NAME=VERSION, or a path
  signature TEXT NOT NULL,      -- what the workload says it did
  kept_at INTEGER NOT NULL      -- seconds since 1970
) STRICT;
CREATE INDEX measurement_by_workload ON measurement (workload);
CREATE TABLE value (
  measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
  metric TEXT NOT NULL,
  layout INTEGER NOT NULL,
  raw INTEGER NOT NULL,         -- of all operations
  whole INTEGER NOT NULL,       -- what a difference has to be a share of to matter
  PRIMARY KEY (measurement, metric, layout)
) STRICT, WITHOUT ROWID;
CREATE TABLE result (
  id INTEGER PRIMARY KEY,
  object TEXT NOT NULL UNIQUE,
  stamp TEXT NOT NULL,
  kind TEXT NOT NULL,           -- comparison, ledger, bisection, …
  title TEXT NOT NULL,
  headline TEXT NOT NULL,
  rows TEXT NOT NULL,           -- their names, a line each
  kernels TEXT NOT NULL,        -- their names, a line each
  kept_at INTEGER NOT NULL
) STRICT;
CREATE TABLE alias (            -- another name under which a result has a kernel
  result INTEGER NOT NULL REFERENCES result ON DELETE CASCADE,
  kernel_sha256 TEXT NOT NULL,
  asked TEXT NOT NULL,          -- as in measurement
  source TEXT NOT NULL,
  UNIQUE (result, kernel_sha256, asked, source)
) STRICT;
CREATE TABLE tag (
  name TEXT PRIMARY KEY,
  kernel_sha256 TEXT NOT NULL,
  boot_line TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The cost of each row per operation: a line for each kernel, boot line, conditions and metric.
CREATE VIEW cost AS
SELECT workload.row, value.metric, kernel.name AS kernel, kernel.sha256, subject.boot_line,
  measurement.conditions, conditions.qemu, conditions.guest, min(value.raw) * 1.0 / workload.ops AS least,
  max(value.raw) * 1.0 / workload.ops AS most, count(*) AS layouts
FROM value
JOIN measurement ON measurement.id = value.measurement
JOIN workload ON workload.id = measurement.workload
JOIN subject ON subject.id = measurement.subject
JOIN kernel ON kernel.id = subject.kernel
JOIN conditions ON conditions.id = measurement.conditions
GROUP BY value.measurement, value.metric;
