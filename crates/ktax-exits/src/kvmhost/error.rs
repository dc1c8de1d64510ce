use std::io;

use ktax_engine::Stop;
use ktax_engine::qemu::QemuError;
use ktax_model::{Blame, Failure};

/// Why a host gives no answer. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(
        "cannot prepare {path} for the KVM host: {error}; check that it is readable and that the \
         disk has free space"
    )]
    File { path: String, error: io::Error },
    #[error("the KVM host cannot run {path}: {reason}; use a ktax that is built for this machine")]
    Program { path: String, reason: &'static str },
    #[error("the KVM host cannot be used: {reason}; give a kernel with KVM for AMD (--kernel)")]
    Unusable { reason: String },
    #[error(
        "the KVM host{} did not answer: {failure}; its console ends with `{}`; \
         try a longer --time-limit, or run `ktax doctor`",
        on(.board),
        ktax_engine::wire::tail(.console)
    )]
    Failed {
        /// The machine, where it is not the usual one.
        board: Option<&'static str>,
        failure: Failure,
        /// The end of its console.
        console: Vec<u8>,
    },
    #[error(
        "a KVM host on {name} needs {missing}; type: \
         sudo apt-get install --no-install-recommends {packages}"
    )]
    Missing { name: &'static str, missing: String, packages: String },
    #[error("{compiler}-gcc cannot compile the host's program: {said}; install the compiler again")]
    Compiler { compiler: &'static str, said: String },
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error("stopped; run the same command again")]
    Cancelled,
}

fn on(board: &Option<&'static str>) -> String {
    board.map(|name| format!(" on {name}")).unwrap_or_default()
}

impl HostError {
    /// Who can do something about it. A host that does not run is a guest's kernel that does not.
    pub fn blame(&self) -> Blame {
        use HostError::*;
        match self {
            File { .. } | Program { .. } | Compiler { .. } | Cancelled => Blame::Host,
            Failed { failure: Failure::Host { .. }, .. } => Blame::Host,
            Failed { .. } | Unusable { .. } | Missing { .. } => Blame::Guest,
            Qemu(error) => error.blame(),
        }
    }

    /// A reader or writer of files, as an error about `path`.
    pub(super) fn of_file(path: impl Into<String>) -> impl Fn(io::Error) -> HostError {
        let path = path.into();
        move |error| HostError::File { path: path.clone(), error }
    }

    /// What stopped a machine, as an error about the host.
    pub(super) fn of_stop(board: Option<&'static str>) -> impl Fn(Stop) -> HostError {
        move |stop| match stop {
            Stop::Cancelled => HostError::Cancelled,
            Stop::Failed(failure, console) => HostError::Failed { board, failure, console },
        }
    }
}

/// An error of a host as a failed row.
impl From<HostError> for Stop {
    fn from(error: HostError) -> Stop {
        let of_host = |operation: String, reason: String| Failure::Host { operation, reason };
        match error {
            HostError::Cancelled => Stop::Cancelled,
            HostError::Failed { failure, console, .. } => Stop::Failed(failure, console),
            HostError::Unusable { reason } => {
                Failure::Refused { message: format!("the KVM host cannot be used: {reason}") }
                    .into()
            }
            HostError::File { path, error } => {
                of_host(format!("cannot prepare {path} for the KVM host"), error.to_string()).into()
            }
            error @ (HostError::Program { .. }
            | HostError::Missing { .. }
            | HostError::Compiler { .. }) => {
                of_host("cannot make a KVM host".into(), error.to_string()).into()
            }
            HostError::Qemu(error) => Failure::NoQemu { reason: error.to_string() }.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_blames_the_one_who_can_act() {
        let failed = |failure| HostError::Failed { board: None, failure, console: Vec::new() };
        let (operation, reason) = ("cannot write x".to_owned(), "it is full".to_owned());
        let (path, said) = (String::new(), String::new());
        for host in [
            HostError::of_file("/x")(io::ErrorKind::StorageFull.into()),
            failed(Failure::Host { operation, reason: reason.clone() }),
            HostError::Program { path, reason: "no 64-bit ELF file" },
            HostError::Compiler { compiler: "powerpc-linux-gnu", said },
            HostError::Cancelled,
        ] {
            assert_eq!(host.blame(), Blame::Host, "{host}");
        }
        let (missing, packages) = ("QEMU".to_owned(), "qemu-system-ppc".to_owned());
        for guest in [
            failed(Failure::Panic { message: "oops".into() }),
            failed(Failure::RealTime { limit_s: 3 }),
            HostError::Unusable { reason },
            HostError::Missing { name: "e500v2", missing, packages },
            HostError::Qemu(QemuError::TooOld { found: "6.0".into() }),
        ] {
            assert_eq!(guest.blame(), Blame::Guest, "{guest}");
        }
    }

    #[test]
    fn an_error_of_a_host_becomes_a_row() {
        let stop = |error: HostError| Stop::from(error);
        assert_eq!(stop(HostError::Cancelled), Stop::Cancelled);
        let failure = Failure::RealTime { limit_s: 3 };
        let console = b"last words".to_vec();
        let failed = HostError::of_stop(Some("e500v2"))(Stop::Failed(failure.clone(), console));
        let said = failed.to_string();
        assert!(said.starts_with("the KVM host on e500v2 did not answer: no result"), "{said}");
        assert!(said.contains("`last words`"), "{said}");
        assert_eq!(stop(failed), Stop::Failed(failure, b"last words".to_vec()));
        let Stop::Failed(failure, _) = stop(HostError::Unusable { reason: "no KVM".into() }) else {
            panic!("it is a row")
        };
        assert!(failure.to_string().ends_with("cannot be used: no KVM"), "{failure}");
        let full = HostError::of_file("/x")(io::ErrorKind::StorageFull.into());
        let Stop::Failed(failure, _) = stop(full) else { panic!("it is a row") };
        assert!(failure.is_of_the_host());
    }
}
