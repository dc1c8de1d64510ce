use super::WireError;
use super::lines::Lines;

/// Parses `/proc/kallsyms` as the guest sends it and returns the plugin's symbol file: the
/// functions of the kernel and its modules, sorted by address, one for each address.
///
/// # Errors
///
/// A line is malformed, or there is no function.
pub fn parse_symbols(wire: &[u8]) -> Result<String, WireError> {
    let mut lines = Lines::after_version(wire)?;
    let start = lines.next()?;
    if start.expect("start")? != "symbols" {
        return Err(start.malformed());
    }
    let mut functions = Vec::new();
    loop {
        let line = lines.next()?;
        if line.bytes() == b"end" {
            break;
        }
        let text = std::str::from_utf8(line.bytes()).map_err(|_| line.malformed())?;
        functions.extend(function(text).map_err(|()| line.malformed())?);
    }
    lines.nothing_more()?;
    if functions.is_empty() {
        return Err(WireError::NoSymbols);
    }
    // If an address has several names, the alphabetically first is used: the order of the table may
    // differ between boots.
    functions.sort_unstable();
    functions.dedup_by_key(|(address, _)| *address);
    Ok(functions.iter().map(|(address, name)| format!("{address:016x} {name}\n")).collect())
}

/// `Some` for a function, `None` for data and user-space addresses.
fn function(line: &str) -> Result<Option<(u64, &str)>, ()> {
    let mut fields = line.split_whitespace();
    let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(());
    };
    let address = u64::from_str_radix(address, 16).map_err(|_| ())?;
    let of_text = matches!(kind, "t" | "T" | "w" | "W");
    let nameable = (1..=127).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    Ok((address >> 63 == 1 && of_text && nameable).then_some((address, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_image_and_of_modules_are_kept_in_order() {
        let wire = b"ktax 1\nstart symbols\n\
            ffffffff81000040 T second\n\
            ffffffff81000000 t b_first\n\
            ffffffff81000000 T a_first\n\
            ffffffff82000000 D data\n\
            0000000000001000 T percpu\n\
            ffffffffc0000000 t helper\t[module]\n\
            end\n";
        let symbols = parse_symbols(wire).unwrap();
        let image = "ffffffff81000000 a_first\nffffffff81000040 second\n";
        assert_eq!(symbols, format!("{image}ffffffffc0000000 helper\n"));
    }

    #[test]
    fn a_table_of_zeroes_is_no_table() {
        let wire = b"ktax 1\nstart symbols\n0000000000000000 T _stext\nend\n";
        assert_eq!(parse_symbols(wire), Err(WireError::NoSymbols));
    }
}
