//! A boot line as the kernel reads it (next_arg of lib/cmdline.c).

/// Parameters of a boot line as typed; a quoted space does not split.
pub fn parameters(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = line.split(move |c: char| {
        is_quoted ^= c == '"';
        matches!(c, ' ' | '\t'..='\r') && !is_quoted
    });
    parts.filter(|parameter| !parameter.is_empty()).collect()
}

/// A parameter as the kernel passes it to init if it does not know it: `a="x y"` is `a=x y`.
pub fn unquoted(parameter: &str) -> String {
    let inner = parameter.strip_prefix('"');
    let (text, mut is_quoted) = (inner.unwrap_or(parameter), inner.is_some());
    // A name has at least one character.
    let equals = text.char_indices().skip(1).find(|(_, c)| *c == '=').map(|(index, _)| index);
    let (name, mut value) = match equals {
        Some(index) => text.split_at(index + 1),
        None => ("", text),
    };
    if let Some(inner) = value.strip_prefix('"').filter(|_| equals.is_some()) {
        (value, is_quoted) = (inner, true);
    }
    let value = if is_quoted { value.strip_suffix('"').unwrap_or(value) } else { value };
    format!("{name}{value}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The kernel's own steps: one parameter, what init gets of it, and the rest of the line.
    fn next_arg(line: &[u8]) -> (Vec<u8>, &[u8]) {
        let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let quoted = line.first() == Some(&b'"');
        let args = &line[usize::from(quoted)..];
        let (mut in_quote, mut equals, mut i) = (quoted, 0, 0);
        while i < args.len() && (in_quote || !is_space(args[i])) {
            if equals == 0 && args[i] == b'=' {
                equals = i;
            }
            in_quote ^= args[i] == b'"';
            i += 1;
        }
        let (mut end, mut value) = (i, equals + 1);
        if equals > 0 && value < i && args[value] == b'"' {
            value += 1;
            end -= usize::from(args[i - 1] == b'"');
        }
        if quoted && end == i && i > 0 && args[i - 1] == b'"' {
            end -= 1;
        }
        let value_of_init = match equals {
            0 => args[..end].to_vec(),
            _ => [&args[..=equals], args.get(value..end).unwrap_or_default()].concat(),
        };
        let rest = &args[i..];
        let blanks = rest.iter().take_while(|byte| is_space(**byte)).count();
        (value_of_init, &rest[blanks..])
    }

    #[test]
    fn quotes_hold_a_value_together() {
        let line = r#"quiet  foo="x y" "bar=1 2" dyndbg="file a.c +p" b=" "#;
        let words = parameters(line);
        assert_eq!(
            words,
            ["quiet", r#"foo="x y""#, r#""bar=1 2""#, r#"dyndbg="file a.c +p""#, "b=\" "]
        );
        let read: Vec<String> = words.into_iter().map(unquoted).collect();
        assert_eq!(read, ["quiet", "foo=x y", "bar=1 2", "dyndbg=file a.c +p", "b= "]);
    }

    proptest! {
        #[test]
        fn any_line_is_read_as_the_kernel_reads_it(line in r#"[ab="\t .-]{0,24}"#) {
            let read: Vec<String> = parameters(&line).into_iter().map(unquoted).collect();
            let mut rest = line.trim_start().as_bytes();
            let mut expected = Vec::new();
            while !rest.is_empty() {
                let (one, after) = next_arg(rest);
                expected.push(String::from_utf8(one).unwrap());
                rest = after;
            }
            prop_assert_eq!(read, expected);
        }
    }
}
