#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Reference implementation: the length of a name, byte by byte as the grammar reads.
fn name_by_bytes(text: &[u8]) -> Option<usize> {
    let of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-' | b'.');
    let name: Vec<u8> = text.iter().take_while(of_name).copied().collect();
    let whole = name.strip_suffix(b".").unwrap_or(&name);
    let labels: Vec<&[u8]> = whole.split(|byte| *byte == b'.').collect();
    let well_formed = |label: &&[u8]| !label.is_empty() && !label.starts_with(b"-") && !label.ends_with(b"-");
    let top = labels.last()?.first()?;
    (labels.iter().all(well_formed) && !top.is_ascii_digit()).then_some(name.len())
}

/// Reference implementation: an address and its end, if it doesn't continue as a name.
fn address_by_parts(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-' | b'.');
    let whole: Vec<u8> = text.iter().take_while(of_name).copied().collect();
    let number = |part: &[u8]| {
        let digits = !part.is_empty() && part.len() <= 3 && part.iter().all(u8::is_ascii_digit);
        digits.then(|| part.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    };
    let parts: Option<Vec<u32>> = whole.split(|byte| *byte == b'.').map(number).collect();
    match parts?.as_slice() {
        [a, b, c, d] if [a, b, c, d].iter().all(|number| **number < 256) => {
            Some((Ipv4Addr::new(*a as u8, *b as u8, *c as u8, *d as u8), whole.len()))
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn names_and_addresses_are_those_of_the_grammar(text in "[ab019._:;-]{0,14}") {
        let expected = address_by_parts(text.as_bytes()).map(|(address, len)| (Host::V4(address), len)).or_else(|| {
            let len = name_by_bytes(text.as_bytes())?;
            Some((Host::Name(text.as_bytes().get(..len)?), len))
        });
        prop_assert_eq!(Host::read(text.as_bytes()), expected);
    }

    #[test]
    fn addresses_are_read(address in any::<[u8; 4]>(), zeros in any::<bool>(), after in "[:;>x.-]{0,2}") {
        let address = Ipv4Addr::from(address);
        let text = match (zeros, address.octets()) {
            (true, [a, b, c, d]) => format!("{a:03}.{b:03}.{c:03}.{d:03}{after}"),
            (false, _) => format!("{address}{after}"),
        };
        prop_assert_eq!(ipv4(text.as_bytes()), address_by_parts(text.as_bytes()));
    }
}

#[test]
fn a_number_over_255_is_no_address() {
    for text in
        ["256.1.1.1", "1.1.1.256", "1.1.1.1000", "1.1.1", "1.1.1.1.1", "1..1.1", "1.1.1.1x", "1.1.1.1."]
    {
        assert_eq!(ipv4(text.as_bytes()), None, "{text}");
    }
}
