#![allow(clippy::unwrap_used)]

use super::*;

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    tuning: Tuning,
}

fn config(words: &str) -> AssociationConfig {
    let words = core::iter::once("perf").chain(words.split_whitespace());
    let tuning = <Cli as clap::Parser>::try_parse_from(words).unwrap().tuning;
    tuning.apply(tuning.base())
}

#[test]
fn rfc_9260_preset_accepts_changes() {
    assert_eq!(config(""), AssociationConfig::default());
    assert_eq!(config("--rfc9260"), AssociationConfig::rfc9260());
    let changed = config("--rfc9260 --congestion cubic --burst 0");
    let wanted =
        AssociationConfig { congestion: Algorithm::Cubic, burst_max: 0, ..AssociationConfig::rfc9260() };
    assert_eq!(changed, wanted);
    assert!(config("--ecn").extensions.ecn);
    assert_eq!(config("--multipath coupled").extensions.multipath, Multipath::Coupled);
    assert_eq!(config("--multipath independent").extensions.multipath, Multipath::Independent);
    assert_eq!(config("--fast-retransmit other-path").fast_retransmit, FastRetransmit::OtherPath);
}

#[test]
fn a_path_and_its_controller() {
    let (address, congestion) = path_congestion("2001:db8::1=bbr").unwrap();
    assert_eq!((address, congestion), ("2001:db8::1".parse().unwrap(), Congestion::Bbr));
    for wrong in ["", "192.0.2.7", "192.0.2.7=", "192.0.2.7=reno", "host=bbr", "192.0.2.7=dctcp"] {
        assert!(path_congestion(wrong).is_err(), "{wrong}");
    }
    let told = path_congestion("192.0.2.7=bbrr").unwrap_err().to_string();
    assert_eq!(told, "unknown algorithm \"bbrr\": use rfc9260, cubic, bbr, swift");
}
