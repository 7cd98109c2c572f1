use super::*;

#[test]
fn content_length_is_found_by_both_names() {
    let found = [
        ("Content-Length: 7", 15),
        ("content-LENGTH:7", 15),
        ("Content-Length \t: 7", 17),
        ("l:7", 2),
        ("L : 7", 3),
    ];
    for (line, value) in found {
        assert_eq!(content_length(line.as_bytes()), Some(value), "{line}");
    }
    let others = [
        "Content-Lengt: 7",
        "Content-Length",
        "Content-Lengths: 7",
        "Content-Length x: 7",
        "Contact: l:7",
        "l",
        "lr:7",
        "l x:7",
        "",
        " l: 7",
        "con",
        "Content-Type: l:7",
    ];
    for line in others {
        assert_eq!(content_length(line.as_bytes()), None, "{line}");
    }
}
