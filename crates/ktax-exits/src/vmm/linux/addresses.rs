//! Ports that ACPI's tables name and that the machine answers.

/// Power management control.
pub(super) const CONTROL: u16 = 0x604;
/// A value of [`CONTROL`]: the system is in ACPI mode.
pub(super) const IS_ACPI: u8 = 1;
/// A bit in the upper byte of what is written to [`CONTROL`]: go to sleep. The only sleeping state
/// is off.
pub(super) const SLEEP: u8 = 0x20;

/// The keyboard controller's command and status.
pub(super) const KEYBOARD: u16 = 0x64;
/// A command to [`KEYBOARD`] that resets the computer.
pub(super) const RESET: u8 = 0xfe;
