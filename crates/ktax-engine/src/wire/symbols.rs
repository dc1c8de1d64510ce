use super::WireError;
use super::lines::Lines;

/// Parses `/proc/kallsyms` as the guest sends it and returns the plugin's symbol file: the
/// functions of the kernel and its modules, sorted by address, one for each address.
///
/// # Errors
///
/// A line is malformed, or there is no function.
pub fn parse_symbols(wire: &[u8]) -> Result<String, WireError> {
    // If an address has several names, the alphabetically first is used: the order of the table may
    // differ between boots.
    let mut functions = parse(wire, |address, kind| address >> 63 == 1 && is_text(kind))?;
    if functions.is_empty() {
        return Err(WireError::NoSymbols);
    }
    functions.dedup_by_key(|(address, _)| *address);
    Ok(file(&functions))
}

/// The same of all that is no function: variables, also those of which each CPU has one, which are
/// at low addresses. Several may be at the same. A kernel without `CONFIG_KALLSYMS_ALL` has few.
///
/// # Errors
///
/// A line is malformed.
pub fn parse_variables(wire: &[u8]) -> Result<String, WireError> {
    Ok(file(&parse(wire, |_, kind| !is_text(kind))?))
}

fn file(symbols: &[(u64, &str)]) -> String {
    symbols.iter().map(|(address, name)| format!("{address:016x} {name}\n")).collect()
}

fn is_text(kind: &str) -> bool {
    matches!(kind, "t" | "T" | "w" | "W")
}

/// The symbols of which that is so, sorted.
fn parse(wire: &[u8], is_asked: fn(u64, &str) -> bool) -> Result<Vec<(u64, &str)>, WireError> {
    let mut lines = Lines::after_version(wire)?;
    let start = lines.next()?;
    if start.expect("start")? != "symbols" {
        return Err(start.malformed());
    }
    let mut symbols = Vec::new();
    loop {
        let line = lines.next()?;
        if line.bytes() == b"end" {
            break;
        }
        let text = std::str::from_utf8(line.bytes()).map_err(|_| line.malformed())?;
        symbols.extend(symbol(text, is_asked).map_err(|()| line.malformed())?);
    }
    lines.nothing_more()?;
    symbols.sort_unstable();
    Ok(symbols)
}

/// `None` for a symbol that is not asked for, or that no file can name.
fn symbol(line: &str, is_asked: fn(u64, &str) -> bool) -> Result<Option<(u64, &str)>, ()> {
    let mut fields = line.split_whitespace();
    let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(());
    };
    let address = u64::from_str_radix(address, 16).map_err(|_| ())?;
    let nameable = (1..=127).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    Ok((nameable && is_asked(address, kind)).then_some((address, name)))
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
    fn variables_are_all_others_and_those_of_each_cpu_among_them() {
        let wire = b"ktax 1\nstart symbols\n\
            ffffffff82000000 D data\n\
            ffffffff81000000 T function\n\
            0000000000001000 A percpu\n\
            ffffffff82000000 b also_there\n\
            end\n";
        let high = "ffffffff82000000 also_there\nffffffff82000000 data\n";
        assert_eq!(parse_variables(wire).unwrap(), format!("0000000000001000 percpu\n{high}"));
    }

    #[test]
    fn a_table_of_zeroes_is_no_table() {
        let wire = b"ktax 1\nstart symbols\n0000000000000000 T _stext\nend\n";
        assert_eq!(parse_symbols(wire), Err(WireError::NoSymbols));
    }
}
