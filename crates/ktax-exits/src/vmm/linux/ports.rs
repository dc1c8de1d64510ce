//! The ports of a Linux guest: a serial port that prints, and a way to reset. All other ports read
//! as ones, as from an empty bus.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Signal, getpid, kill_process};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};
use vmm_sys_util::eventfd::EventFd;

use crate::vmm::VmmError;
use crate::vmm::vcpu::{Bus, Next};

const SERIAL: u16 = 0x3f8;
const SERIAL_END: u16 = 0x3ff;
/// The CMOS clock's data. It reads as zero: not a valid time, and no update in progress.
const CMOS_DATA: u16 = 0x71;
/// The keyboard controller's status: ready for a command, and always with a byte to fetch. Linux
/// then takes the keyboard for absent at once, and still resets by its controller.
const KEYBOARD_STATUS: u8 = 1;

/// Power management control.
pub(super) const CONTROL: u16 = 0x604;
/// A value of [`CONTROL`]: the system is in ACPI mode.
const IS_ACPI: u8 = 1;
/// A bit in the upper byte of what is written to [`CONTROL`]: go to sleep. The only sleeping state
/// is off.
const SLEEP: u8 = 0x20;

/// The keyboard controller's command and status.
pub(super) const KEYBOARD: u16 = 0x64;
/// A command to [`KEYBOARD`] that resets the computer.
pub(super) const RESET: u8 = 0xfe;

/// A guest writes here where the part of interest begins and ends: guest/vm/init.c.
const MARK: u16 = 0x5ea;

/// The ports.
pub(super) struct Ports {
    /// Whether this process stops at a mark.
    stops_at_marks: bool,
    serial: Mutex<Serial<SerialInterrupt, NoEvents, Console>>,
}

/// The serial port's interrupt.
struct SerialInterrupt(EventFd);

impl Trigger for SerialInterrupt {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

impl Ports {
    pub fn new(interrupt: EventFd, stops_at_marks: bool) -> Ports {
        Ports {
            stops_at_marks,
            serial: Mutex::new(Serial::new(SerialInterrupt(interrupt), Console::default())),
        }
    }

    /// Prints the rest of the last line.
    pub fn flush(&self) -> Result<(), VmmError> {
        self.serial().writer_mut().print().map_err(|error| VmmError::Console { error })
    }

    fn serial(&self) -> MutexGuard<'_, Serial<SerialInterrupt, NoEvents, Console>> {
        // A vCPU that panicked has ended the guest.
        self.serial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Bus for Ports {
    fn read(&self, port: u16, data: &mut [u8]) {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                data.fill_with(|| serial.read(offset(port)));
            }
            KEYBOARD => data.fill(KEYBOARD_STATUS),
            CMOS_DATA => data.fill(0),
            CONTROL => {
                data.fill(0);
                data[0] = IS_ACPI;
            }
            _ => data.fill(0xff),
        }
    }

    fn write(&self, port: u16, data: &[u8]) -> Result<Next, VmmError> {
        match port {
            SERIAL..=SERIAL_END => {
                let mut serial = self.serial();
                for byte in data {
                    let written = serial.write(offset(port), *byte);
                    written.map_err(|error| VmmError::Console { error: io_error(error) })?;
                }
                Ok(Next::GoOn)
            }
            MARK if self.stops_at_marks => {
                kill_process(getpid(), Signal::STOP).map_err(|error| VmmError::Stop { error })?;
                Ok(Next::GoOn)
            }
            KEYBOARD if data.contains(&RESET) => Ok(Next::End),
            CONTROL if data.get(1).is_some_and(|upper| upper & SLEEP != 0) => Ok(Next::End),
            _ => Ok(Next::GoOn),
        }
    }

    fn may_shut_down(&self) -> bool {
        true
    }
}

/// The number of the serial port's register, of eight.
fn offset(port: u16) -> u8 {
    (port - SERIAL).to_le_bytes()[0]
}

fn io_error(error: vm_superio::serial::Error<io::Error>) -> io::Error {
    match error {
        vm_superio::serial::Error::Trigger(error) | vm_superio::serial::Error::IOError(error) => {
            error
        }
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Stdout, a line at a time. A system call for each byte would dominate the cost of a guest.
#[derive(Default)]
struct Console(Vec<u8>);

impl Console {
    const LINE: usize = 1024;

    fn print(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let printed = stdout.write_all(&self.0).and_then(|()| stdout.flush());
        self.0.clear();
        match printed {
            // A reader that closes its end is not an error, and the guest goes on.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend(bytes);
        if bytes.contains(&b'\n') || self.0.len() >= Console::LINE {
            self.print()?;
        }
        Ok(bytes.len())
    }

    /// Called after each byte.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Ports {
        Ports::new(EventFd::new(0).unwrap(), false)
    }

    fn read(ports: &Ports, port: u16) -> u8 {
        let mut byte = [0x55];
        ports.read(port, &mut byte);
        byte[0]
    }

    #[test]
    fn an_empty_bus_is_ones() {
        let ports = ports();
        for port in [0, 0x80, 0x3f7, 0x400, 0xcfc, 0xffff] {
            assert_eq!(read(&ports, port), 0xff, "{port:#x}");
            assert_eq!(ports.write(port, &[RESET]).unwrap(), Next::GoOn, "{port:#x}");
        }
        let mut wide = [0; 4];
        ports.read(0xcfc, &mut wide);
        assert_eq!(wide, [0xff; 4]);
    }

    #[test]
    fn the_keyboard_resets() {
        let ports = ports();
        assert_eq!(ports.write(KEYBOARD, &[0x20]).unwrap(), Next::GoOn);
        assert_eq!(ports.write(KEYBOARD, &[RESET]).unwrap(), Next::End);
        // Ready for a command: bit 1 is clear.
        assert_eq!(read(&ports, KEYBOARD) & 2, 0);
    }

    #[test]
    fn going_to_sleep_is_the_end() {
        let ports = ports();
        assert_eq!(ports.write(CONTROL, &[0, 0x14]).unwrap(), Next::GoOn);
        assert_eq!(ports.write(CONTROL, &[0, 0x34]).unwrap(), Next::End);
        assert_eq!(read(&ports, CONTROL), IS_ACPI);
    }

    #[test]
    fn the_serial_port_is_ready_to_print() {
        let ports = ports();
        // The line status: the transmitter is empty.
        assert_eq!(read(&ports, SERIAL + 5) & 0x60, 0x60);
        ports.write(SERIAL + 7, &[0x42]).unwrap();
        assert_eq!(read(&ports, SERIAL + 7), 0x42);
    }
}
