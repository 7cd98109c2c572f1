use super::*;

#[test]
fn quantities_are_read() {
    let ms = Duration::from_millis;
    assert_eq!(time("30ms"), Ok(ms(30)));
    assert_eq!(time("0.1s"), Ok(ms(100)));
    assert_eq!(time("250 us"), Ok(Duration::from_micros(250)));
    assert_eq!(time("2min"), Ok(ms(120_000)));
    assert_eq!(time("0"), Ok(Duration::ZERO));
    assert_eq!(rate("100mbit"), Ok(100_000_000));
    assert_eq!(rate("1.5Gbit/s"), Ok(1_500_000_000));
    assert_eq!(rate("64k"), Ok(64_000));
    assert_eq!(rate("unlimited"), Ok(0));
    assert_eq!(size("1500"), Ok(1500));
    assert_eq!(size("256k"), Ok(256_000));
    assert_eq!(size("64KiB"), Ok(65_536));
    assert_eq!(probability("1%"), Ok(0.01));
    assert_eq!(probability("0"), Ok(0.0));
    assert_eq!(packets("4", 1.0), Ok(4.0));
}

#[test]
fn mistakes_say_what_is_right() {
    for (message, hint) in [
        (time("30").unwrap_err(), "30ms"),
        (time("soon").unwrap_err(), "30ms"),
        (time("1.2.3s").unwrap_err(), "30ms"),
        (rate("100").unwrap_err(), "100mbit"),
        // Ambiguous: bits for some tools, bytes for others.
        (rate("64kbps").unwrap_err(), "512kbit"),
        (rate("0mbit").unwrap_err(), "1bit to 1000gbit"),
        (rate("-1mbit").unwrap_err(), "100mbit"),
        (size("1p").unwrap_err(), "256k"),
        (probability("150%").unwrap_err(), "0% to 100%"),
        (probability("1").unwrap_err(), "use 1% or, for that share, 100%"),
        (probability("0.01").unwrap_err(), "use 0.01% or, for that share, 1%"),
        (probability("5").unwrap_err(), "use 5%"),
        (probability("1 percent").unwrap_err(), "0.05%"),
        (packets("0", 1.0).unwrap_err(), "at least 1"),
        (packets("nan", 1.0).unwrap_err(), "at least 1"),
    ] {
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn quantities_are_shown() {
    assert_eq!(show_ns(31_000), "31 us");
    assert_eq!(show_ns(1_250_000), "1.25 ms");
    assert_eq!(show_ns(2_000_000_000), "2 s");
    assert_eq!(show_rate(99.5e6), "99.5 Mbit/s");
    assert_eq!(show_rate(100e6), "100 Mbit/s");
    assert_eq!(show_bytes(1_500_000), "1.5 MB");
    assert_eq!(show_bytes(1500), "1500 B");
}
