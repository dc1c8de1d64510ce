/// A size in the largest binary unit that it fills: `20.0 GiB`, `41.2 MiB`, `512 bytes`.
pub fn binary_size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => super::counted(usize::try_from(bytes).unwrap_or_default(), "byte"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_largest_unit_that_they_fill() {
        let said = [0, 1, 1023, 1024, 43_200_000, 20 << 30, 3 << 40].map(binary_size);
        let expected =
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "41.2 MiB", "20.0 GiB", "3.0 TiB"];
        assert_eq!(said, expected);
    }
}
