use super::*;

const NOW: u64 = 1_800_000_000;

fn told(from_days: i64, to_days: i64) -> Option<(String, bool)> {
    let at = |days: i64| NOW.saturating_add_signed(days * DAY_SECS as i64);
    of_time((at(from_days), at(to_days)), NOW).map(|flaw| (flaw.to_string(), flaw.is_error))
}

#[test]
fn certificates_end_and_begin() {
    assert_eq!(told(-1, 14), None);
    let ends = "tls.certificate: the certificate expires in 13 days: replace it and reload the configuration";
    assert_eq!(told(-1, 13), Some((ends.to_owned(), false)));
    assert!(told(-1, 0).unwrap().0.contains("the certificate expires in less than a day:"));
    let ended = "tls.certificate: the certificate expired 1 day ago: peers reject it";
    assert_eq!(told(-90, -1), Some((ended.to_owned(), true)));
    let begins = "tls.certificate: the certificate becomes valid in 2 days, and peers reject it until then: is the clock right?";
    assert_eq!(told(2, 90), Some((begins.to_owned(), true)));
}
