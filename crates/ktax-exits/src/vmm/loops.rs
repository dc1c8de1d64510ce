use super::error::VmmError;
use ktax_model::RawKind;

/// How many times a guest does each kind, in the order of [`RawKind::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loops([u32; RawKind::ALL.len()]);

impl Loops {
    /// The same, with another number of one kind.
    #[must_use]
    pub fn with(mut self, kind: RawKind, times: u32) -> Loops {
        self.0[kind as usize] = times;
        self
    }

    /// How many times.
    pub(super) fn times(&self, kind: RawKind) -> u32 {
        self.0[kind as usize]
    }

    /// What the guest does at least once.
    fn kinds(&self) -> impl Iterator<Item = RawKind> {
        RawKind::ALL.into_iter().filter(|kind| self.times(*kind) > 0)
    }

    /// Whether KVM has the interrupt controllers in the kernel; a HLT then waits there.
    pub(super) fn has_controllers(&self) -> bool {
        self.kinds().any(RawKind::needs_controllers)
    }

    /// Whether the guest gets interrupts.
    pub(super) fn has_interrupts(&self) -> bool {
        self.kinds().any(RawKind::is_interrupt)
    }

    /// How many vCPUs.
    pub(super) fn cpus(&self) -> u8 {
        if self.times(RawKind::Ipi) > 0 { 2 } else { 1 }
    }

    /// Refuses what no guest can do.
    ///
    /// # Errors
    ///
    /// A number is too large, or two kinds need different machines.
    pub fn check(&self) -> Result<(), VmmError> {
        if let Some(kind) = self.kinds().find(|kind| !kind.times().contains(&self.times(*kind))) {
            let (name, most) = (kind.name(), *kind.times().end());
            return Err(VmmError::TooMany { kind: name, times: self.times(kind), most });
        }
        let controllers = self.kinds().find(|kind| kind.needs_controllers());
        match controllers.filter(|_| self.times(RawKind::Hlt) > 0) {
            Some(kind) => Err(VmmError::Mixed { kind: kind.name() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(kinds: &[RawKind]) -> Loops {
        kinds.iter().fold(Loops::default(), |loops, kind| loops.with(*kind, 1))
    }

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        let loops = (1..).zip(RawKind::ALL);
        let loops = loops.fold(Loops::default(), |loops, (at, kind)| loops.with(kind, at));
        assert_eq!(
            RawKind::ALL.map(|kind| loops.times(kind)),
            std::array::from_fn(|at| at as u32 + 1)
        );
    }

    #[test]
    fn hlt_gets_to_the_monitor_only_without_controllers_in_the_kernel() {
        for kind in RawKind::ALL {
            let checked = once(&[kind, RawKind::Hlt]).check();
            assert_eq!(checked.is_err(), kind.needs_controllers(), "{kind:?}");
            if let Err(error) = checked {
                let next = format!("remove --{} or --hlt", kind.name());
                assert!(error.to_string().ends_with(&next), "{error}");
            }
        }
        let all_but_hlt = &RawKind::ALL[..RawKind::ALL.len() - 1];
        assert!(once(all_but_hlt).check().is_ok());
    }

    #[test]
    fn there_are_only_so_many_pages() {
        let of = |times| Loops::default().with(RawKind::Fault, times).check();
        assert!(of(RawKind::FAULTS_MAX).is_ok());
        let error = of(RawKind::FAULTS_MAX + 1).unwrap_err();
        assert!(error.to_string().ends_with("use at most --fault 196096"), "{error}");
    }
}
