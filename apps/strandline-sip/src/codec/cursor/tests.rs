use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn numbers_are_read_however_long_they_are(
        zeros in "0{0,30}", digits in "[0-9]{0,24}", after in "[a;]?", max in any::<u32>(),
    ) {
        let text = format!("{zeros}{digits}{after}");
        let mut cursor = Cursor::new(text.as_bytes(), 0);
        let written = zeros + &digits;
        // Longer numbers don't fit into 128 bits and are too large for 32 bits in any case.
        let value: Option<u128> = written.trim_start_matches('0').parse().ok().or((!written.is_empty()).then_some(0));
        let expected = match value {
            None => Err(Error::new(ErrorKind::Number, 0)),
            Some(value) if value > u128::from(max) => Err(Error::new(ErrorKind::TooLarge, 0)),
            Some(value) => Ok(value as u32),
        };
        prop_assert_eq!(cursor.number(max), expected);
        prop_assert_eq!(cursor.at(), written.len());
    }

    #[test]
    fn runs_end_with_their_class(text in "[a-c%;]{0,20}") {
        let bytes = text.as_bytes();
        let len = bytes.iter().take_while(|byte| is(**byte, class::PARAM)).count();
        for (start, expected) in [(0, len), (bytes.len(), 0), (bytes.len() + 1, 0)] {
            prop_assert_eq!(Cursor::new(bytes, start).run(class::PARAM).len(), expected);
            prop_assert_eq!(Cursor::new(bytes, start).long_run(class::PARAM).len(), expected);
        }
    }
}

#[test]
fn escapes_belong_to_a_run() {
    let mut cursor = Cursor::new(b"a%41%42b;c", 0);
    assert_eq!(cursor.escaped(class::PARAM), Ok(&b"a%41%42b"[..]));
    assert_eq!(cursor.peek(), Some(b';'));
    let mut cursor = Cursor::new(b"a%41%4", 0);
    assert_eq!(cursor.escaped(class::PARAM), Err(Error::new(ErrorKind::Uri, 4)));
}
