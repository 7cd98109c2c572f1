//! Character classes (RFC 3261 section 25.1) in one table: a byte belongs to each class whose bit is set.

/// `token`: names of methods, headers and parameters.
pub(crate) const TOKEN: u16 = 1;
/// `word`, and the `@` of a Call-ID.
pub(crate) const WORD: u16 = 1 << 1;
/// `user` of a SIP URI, except escapes.
pub(crate) const USER: u16 = 1 << 3;
/// `password`, except escapes.
pub(crate) const PASSWORD: u16 = 1 << 4;
/// `paramchar` of a URI, except escapes.
pub(crate) const PARAM: u16 = 1 << 5;
/// `hname` and `hvalue` of a URI, except escapes.
pub(crate) const HNV: u16 = 1 << 6;
/// Any character of any URI: reserved, unreserved, `%`, and the brackets of IPv6.
pub(crate) const URI: u16 = 1 << 7;
/// Digits.
pub(crate) const DIGIT: u16 = 1 << 8;
/// Hexadecimal digits.
pub(crate) const HEX: u16 = 1 << 9;
/// Letters.
pub(crate) const ALPHA: u16 = 1 << 10;
/// Letters and digits of a host name, and `_`, which the grammar forbids but real hosts use.
pub(crate) const LABEL: u16 = 1 << 11;
/// An unquoted value of a header parameter: token or host.
pub(crate) const VALUE: u16 = 1 << 12;
/// Space, tab, and the line ends that folding leaves within a value.
pub(crate) const SPACE: u16 = 1 << 13;
/// The scheme of a URI after its first letter.
pub(crate) const SCHEME: u16 = 1 << 14;

static CLASSES: [u16; 256] = table();

const fn with(mut table: [u16; 256], bytes: &[u8], class: u16) -> [u16; 256] {
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] |= class;
        at += 1;
    }
    table
}

const fn table() -> [u16; 256] {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let mut class = 0;
        if b.is_ascii_alphanumeric() {
            class |= TOKEN | WORD | LABEL | USER | PASSWORD | PARAM | HNV | URI | VALUE | SCHEME;
        }
        if b.is_ascii_digit() {
            class |= DIGIT;
        }
        if b.is_ascii_hexdigit() {
            class |= HEX;
        }
        if b.is_ascii_alphabetic() {
            class |= ALPHA;
        }
        table[byte] = class;
        byte += 1;
    }
    let table = with(table, b"-.!%*_+`'~", TOKEN | WORD | VALUE);
    let table = with(table, b"()<>:\\\"/[]?{}@", WORD);
    let table = with(table, b"_", LABEL);
    // `mark` of `unreserved`
    let table = with(table, b"-_.!~*'()", USER | PASSWORD | PARAM | HNV | URI);
    let table = with(table, b"&=+$,;?/", USER);
    let table = with(table, b"&=+$,", PASSWORD);
    let table = with(table, b"[]/:&+$", PARAM);
    let table = with(table, b"[]/?:+$", HNV);
    let table = with(table, b";/?:@&=+$,%[]", URI);
    let table = with(table, b"[]:/@", VALUE);
    let table = with(table, b" \t\r\n", SPACE);
    with(table, b"+-.", SCHEME)
}

/// Returns true if `byte` belongs to any of the classes in `class`.
#[inline(always)]
pub(crate) fn is(byte: u8, class: u16) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Returns true if `bytes` is not empty and every byte belongs to any of the classes in `class`.
pub(crate) fn all(bytes: &[u8], class: u16) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is(*byte, class))
}
