//! Texts that nobody means well with.

/// Fifty texts that try to leave their place.
pub fn hostile() -> Vec<String> {
    let starts = [
        "<script>alert(1)</script>",
        "</script><script>",
        "</style>",
        "</title><h1>",
        "<!--",
        "-->",
        "]]>",
        "<![CDATA[",
        "<svg onload=alert(1)>",
        "<img src=x onerror=alert(1)>",
        "\" onmouseover=\"alert(1)",
        "' onfocus='alert(1)",
        "javascript:alert(1)",
        "&lt;b&gt;",
        "&#60;script&#62;",
        "\u{202e}txt.exe",
        "\u{2066}\u{2069}",
        "\0",
        "\u{7f}\u{9b}31m",
        "\u{1b}[2J",
        "\u{feff}",
        "\u{e0041}",
        "a\nb\r\nc",
        "\u{2028}",
        "`${alert(1)}`",
    ];
    let plain = starts.iter().map(|text| (*text).to_owned());
    let nested =
        starts.iter().map(|text| format!("</summary></details></table>{text}<td x=\"{text}"));
    plain.chain(nested).collect()
}
