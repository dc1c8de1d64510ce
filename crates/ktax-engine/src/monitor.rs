//! QEMU's monitor (QMP), as far as ktax needs it.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use qapi::qmp::{
    self, CpuInfoFast, MigrateSetParameters, MigrationCapability, MigrationCapabilityStatus,
    MigrationStatus, RunState,
};
use qapi::{Command, Qmp, Stream};

use super::clock::Clock;

/// A connection to the monitor. Every error means that QEMU has ended or does not answer.
pub struct Monitor {
    socket: UnixStream,
    ended_by_host: bool,
    qmp: Qmp<Stream<BufReader<Patient>, UnixStream>>,
}

/// What QEMU says. It has `limit` for each answer, without the time that it waits for a CPU.
struct Patient<R = UnixStream> {
    stream: R,
    clock: Clock,
    limit: Duration,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.clock.restart();
        loop {
            match self.stream.read(buffer) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && !self.clock.has_passed(self.limit) => {}
                other => return other,
            }
        }
    }
}

impl Monitor {
    /// Connects to a QEMU at the other end of `stream`. It must answer within `limit` by its
    /// `clock`.
    pub fn connect(stream: UnixStream, clock: Clock, limit: Duration) -> io::Result<Monitor> {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let socket = stream.try_clone()?;
        let mut reader = BufReader::new(Patient { stream: stream.try_clone()?, clock, limit });
        // qapi expects a greeting, and a QEMU that dies at once sends none.
        if reader.fill_buf()?.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut qmp = Qmp::new(Stream::new(reader, stream));
        qmp.handshake()?;
        let capability = MigrationCapability::x_ignore_shared;
        let capabilities = vec![MigrationCapabilityStatus { capability, state: true }];
        let mut monitor = Monitor { socket, ended_by_host: false, qmp };
        monitor.execute(qmp::migrate_set_capabilities { capabilities })?;
        Ok(monitor)
    }

    /// A descriptor that is readable when QEMU reports an event, such as a stopped VM.
    pub fn events(&self) -> &UnixStream {
        &self.socket
    }

    /// Ends QEMU.
    pub fn quit(&mut self) -> io::Result<()> {
        self.execute(qmp::quit {}).map(drop)
    }

    /// The state of the VM.
    pub fn status(&mut self) -> io::Result<RunState> {
        Ok(self.execute(qmp::query_status {})?.status)
    }

    /// The thread IDs of the vCPUs, by the vCPUs' numbers.
    pub fn vcpu_threads(&mut self) -> io::Result<Vec<i32>> {
        let place = |vcpu: CpuInfoFast| match vcpu {
            CpuInfoFast::x86_64(vcpu) => Some((vcpu.cpu_index, vcpu.thread_id)),
            _ => None,
        };
        let mut vcpus: Vec<_> =
            self.execute(qmp::query_cpus_fast {})?.into_iter().filter_map(place).collect();
        vcpus.sort_unstable();
        let threads = vcpus.into_iter().map(|(_, thread)| i32::try_from(thread));
        threads.collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// Continues a paused VM.
    pub fn resume(&mut self) -> io::Result<()> {
        self.execute(qmp::cont {}).map(drop)
    }

    /// Sends the device state without the memory to a listening socket; returns when it is sent.
    pub fn send_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        let uri = Some(uri);
        self.execute(qmp::migrate { channels: None, detach: None, resume: None, uri })?;
        loop {
            let info = self.execute(qmp::query_migrate {})?;
            match info.status {
                Some(MigrationStatus::completed) => return Ok(()),
                Some(MigrationStatus::failed | MigrationStatus::cancelled) => {
                    let why = info.error_desc.unwrap_or_else(|| "no reason given".into());
                    return Err(io::Error::other(format!("saving the state failed: {why}")));
                }
                _ => std::thread::sleep(poll),
            }
        }
    }

    /// Reads the device state from a file descriptor that QEMU inherited; returns when it is read.
    pub fn receive_state(&mut self, uri: String, poll: Duration) -> io::Result<()> {
        // QEMU would tell a network five times where the machine is now, by a timer in real time.
        // A CPU's slice ends when any timer is due: with several CPUs that changes what follows.
        let quiet = MigrateSetParameters { announce_rounds: Some(0), ..Default::default() };
        self.execute(qmp::migrate_set_parameters(quiet))?;
        let uri = Some(uri);
        self.execute(qmp::migrate_incoming { channels: None, exit_on_error: None, uri })?;
        while self.status()? == RunState::inmigrate {
            std::thread::sleep(poll);
        }
        Ok(())
    }

    /// Virtual seconds since power-on. Under icount the real-time clock is virtual, and `argv.rs`
    /// starts it on 2020-01-01. Each month counts as 31 days, which is close enough for a limit.
    pub fn guest_clock_s(&mut self) -> io::Result<u64> {
        let (path, property) = ("/machine".into(), "rtc-time".into());
        let time = self.execute(qmp::qom_get { path, property })?;
        let field = |name: &str| time.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let months = field("tm_year").saturating_sub(120) * 12 + field("tm_mon");
        let days = months * 31 + field("tm_mday").saturating_sub(1);
        Ok(((days * 24 + field("tm_hour")) * 60 + field("tm_min")) * 60 + field("tm_sec"))
    }

    /// Whether QEMU exited because of the host (a signal) and not because of the guest. Ask it only
    /// after the exit.
    pub fn was_ended_by_host(&mut self) -> bool {
        // Its last events are still in the socket; no answer will come.
        drop(self.qmp.read_response::<qmp::query_status>());
        self.note_events();
        self.ended_by_host
    }

    fn note_events(&mut self) {
        for event in self.qmp.events() {
            if let qmp::Event::SHUTDOWN { data, .. } = event {
                self.ended_by_host |= !data.guest;
            }
        }
    }

    fn execute<C: Command>(&mut self, command: C) -> io::Result<C::Ok> {
        let answer = self.qmp.execute(&command);
        self.note_events();
        Ok(answer?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says nothing in time at first. Meanwhile QEMU has waited so long for a CPU.
    struct Late {
        schedstat: std::path::PathBuf,
        waited: &'static str,
        is_first: bool,
    }

    impl Read for Late {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match std::mem::take(&mut self.is_first) {
                true => {
                    std::fs::write(&self.schedstat, self.waited)?;
                    Err(io::ErrorKind::WouldBlock.into())
                }
                false => (&b"{}"[..]).read(buffer),
            }
        }
    }

    #[test]
    fn an_answer_is_late_only_if_qemu_had_a_cpu() {
        for (waited, is_answer) in [("0 0 0", false), ("0 60000000000 1", true)] {
            let process = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(process.path().join("task/7")).unwrap();
            let schedstat = process.path().join("task/7/schedstat");
            std::fs::write(&schedstat, "0 0 0").unwrap();
            let clock = Clock::by(process.path().to_owned());
            let stream = Late { schedstat, waited, is_first: true };
            let mut late = Patient { stream, clock, limit: Duration::ZERO };
            assert_eq!(late.read(&mut [0; 9]).is_ok(), is_answer, "{waited}");
        }
    }
}
