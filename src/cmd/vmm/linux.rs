use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::account::AccountArgs;
use crate::vmm::linux::{CPUS_MAX, Config, Feature, MEMORY_MIB};

/// Boot a Linux kernel with one serial port
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Boot this bzImage of a 64-bit kernel
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Give the kernel this initial RAM disk
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Boot with these kernel parameters
    #[arg(long, value_name = "LINE", default_value = "console=ttyS0 reboot=k panic=-1")]
    append: String,
    /// Give the guest this much memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u64).range(MEMORY_MIB))]
    memory_mib: u64,
    /// Give the guest N vCPUs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(CPUS_MAX)))]
    cpus: u8,
    /// Hide one of KVM's own features from the guest; repeat for more
    #[arg(long, value_name = "FEATURE", value_parser = feature())]
    without: Vec<Feature>,
    /// Stop (SIGSTOP) where the guest writes to port 0x5ea, for `exits record --from-stop`
    #[arg(long)]
    stop_at_marks: bool,
    #[command(flatten)]
    pub(super) account: AccountArgs,
}

/// Parses the name of a feature of KVM's own.
fn feature() -> impl TypedValueParser<Value = Feature> {
    let names = PossibleValuesParser::new(Feature::ALL.map(Feature::name));
    names.map(|name| Feature::named(&name).expect("the parser accepts no other name"))
}

impl Args {
    pub fn config(&self) -> Config {
        Config {
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            append: self.append.clone(),
            memory_mib: self.memory_mib,
            cpus: self.cpus,
            without: self.without.clone(),
            stops_at_marks: self.stop_at_marks,
        }
    }
}
