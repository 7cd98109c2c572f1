use super::*;

fn config(text: &str) -> LinkConfig {
    let settings: Settings = text.parse().unwrap();
    let mut link = strandline_netem::Link::new(LinkConfig::default(), 0);
    for change in settings.changes(&LinkConfig::default()) {
        link.change(change);
    }
    link.config().clone()
}

#[test]
fn every_setting_is_read() {
    let read = config("rtt=60ms, rate=100mbit, queue=50ms, jitter=1ms, loss-every=10, reorder=1%/5ms");
    assert_eq!(read.delay, Duration::from_millis(30));
    assert_eq!((read.rate_bps, read.queue_bytes_max), (100_000_000, 625_000));
    assert_eq!(read.jitter, Duration::from_millis(1));
    assert_eq!(read.loss, Loss::EveryNth(10));
    assert_eq!(read.reordering.extra_delay_max, Duration::from_millis(5));
    let read = config("duplicate=1%,corrupt=2%,size-max=1400,queue=256k,loss=3%");
    assert_eq!((read.duplication, read.corruption, read.size_max), (0.01, 0.02, 1400));
    assert_eq!((read.queue_bytes_max, read.loss), (256_000, Loss::Random(0.03)));
    assert_eq!(config("loss=1/200").loss, Loss::Random(0.005));
    assert_eq!("cut".parse::<Settings>().unwrap().changes(&read), [Change::Cut]);
    assert_eq!("heal".parse::<Settings>().unwrap().changes(&read), [Change::Heal]);
}

#[test]
fn bursts_lose_what_they_say() {
    for text in ["burst-loss=1%/4", "burst-loss=20%/3"] {
        let share = units::probability(&text[11..text.len() - 2]).unwrap();
        assert!((config(text).loss.mean() - share).abs() < 1e-9, "{text}");
    }
    let Loss::Bursts { good_packets_mean, bad_packets_mean, good_loss, bad_loss } =
        config("gilbert=1%/25%/80%/2%").loss
    else {
        panic!("not bursts");
    };
    assert_eq!((good_packets_mean, bad_packets_mean, good_loss, bad_loss), (100.0, 4.0, 0.02, 0.8));
}

#[test]
fn later_settings_take_the_place_of_earlier_ones() {
    let base: Settings = "delay=1ms,rate=1mbit".parse().unwrap();
    let merged = base.with(&"delay=2ms,loss=none".parse().unwrap());
    assert_eq!(merged.delay, Some(Duration::from_millis(2)));
    assert_eq!((merged.rate_bps, merged.loss), (Some(1_000_000), Some(Loss::None)));
}

#[test]
fn mistakes_say_what_is_right() {
    for (text, hint) in [
        ("speed=3", "rate=100mbit"),
        ("", "rate=100mbit"),
        ("cut=1", "no value"),
        ("queue=big", "256k"),
        ("loss-every=0", "N to lose"),
        ("burst-loss=90%/1", "at most 50%"),
        ("burst-loss=3", "1%/4"),
        ("loss=2/1", "1/100"),
        ("loss=1/0", "1/100"),
        ("reorder=1%", "1%/5ms"),
        ("gilbert=1%", "to-bad/to-good"),
        ("gilbert=0%/1%", "above 0"),
    ] {
        let message = text.parse::<Settings>().unwrap_err();
        assert!(message.contains(hint), "{text}: {message}");
    }
}
