#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// RTO.Min is small enough not to hide the computed values.
fn config() -> AssociationConfig {
    AssociationConfig { rto_min: ms(1), ..AssociationConfig::default() }
}

#[test]
fn c1_rto_initial_until_there_is_a_measurement() {
    let rto = RtoEstimator::new(&config());
    assert_eq!((rto.rto(), rto.srtt()), (ms(1000), None));
}

#[test]
fn c2_first_measurement() {
    let mut rto = RtoEstimator::new(&config());
    rto.on_sample(ms(100), &config());
    assert_eq!((rto.srtt(), rto.rttvar(), rto.rto()), (Some(ms(100)), Some(ms(50)), ms(300)));
}

#[test]
fn c3_rttvar_uses_the_old_srtt() {
    let mut rto = RtoEstimator::new(&config());
    rto.on_sample(ms(100), &config());
    rto.on_sample(ms(180), &config());
    // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110
    assert_eq!(rto.rttvar(), Some(Duration::from_micros(57_500)));
    assert_eq!(rto.srtt(), Some(ms(110)));
    assert_eq!(rto.rto(), ms(340));
}

#[test]
fn c3_alpha_and_beta_are_configurable() {
    let config = AssociationConfig { rto_alpha_shift: 1, rto_beta_shift: 1, ..config() };
    let mut rto = RtoEstimator::new(&config);
    rto.on_sample(ms(100), &config);
    rto.on_sample(ms(200), &config);
    assert_eq!((rto.srtt(), rto.rttvar()), (Some(ms(150)), Some(ms(75))));
}

#[test]
fn c6_and_c7_bounds() {
    let config = AssociationConfig::default();
    let mut rto = RtoEstimator::new(&config);
    rto.on_sample(ms(10), &config);
    assert_eq!(rto.rto(), config.rto_min);
    rto.on_sample(Duration::from_secs(500), &config);
    assert_eq!(rto.rto(), config.rto_max);
}

#[test]
fn g1_no_variation_counts_as_one_tick() {
    let mut rto = RtoEstimator::new(&config());
    for _ in 0..100 {
        rto.on_sample(ms(20), &config());
        assert!(rto.rttvar().unwrap() >= ms(1));
    }
    assert_eq!(rto.rto(), ms(24));
}

#[test]
fn e2_back_off_doubles_up_to_the_maximum() {
    let mut rto = RtoEstimator::new(&config());
    let seconds: Vec<u64> = (0..8)
        .map(|_| {
            rto.back_off(&config());
            rto.rto().as_secs()
        })
        .collect();
    assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn a_measurement_undoes_the_back_off() {
    let mut rto = RtoEstimator::new(&config());
    rto.on_sample(ms(100), &config());
    for _ in 0..5 {
        rto.back_off(&config());
    }
    assert_eq!(rto.rto(), ms(9600));
    rto.on_sample(ms(100), &config());
    assert_eq!(rto.rto(), Duration::from_micros(100_000 + 4 * 37_500));
}

#[test]
fn microseconds_are_kept() {
    let mut rto = RtoEstimator::new(&config());
    rto.on_sample(Duration::from_micros(123), &config());
    assert_eq!(rto.srtt(), Some(Duration::from_micros(123)));
    rto.on_sample(Duration::ZERO, &config());
    assert!(rto.srtt().is_some());
}

#[test]
fn twelve_bytes() {
    assert_eq!(size_of::<RtoEstimator>(), 12);
}

proptest! {
    #[test]
    fn stays_in_bounds_whatever_is_measured(
        samples in proptest::collection::vec(any::<Option<u64>>(), 0..50),
        alpha: u8,
        beta: u8,
        min in 1_u64..3_600_000,
        spread in 0_u64..u64::MAX / 2,
    ) {
        let config = AssociationConfig {
            rto_min: ms(min),
            rto_initial: ms(min),
            rto_max: ms(min + spread),
            rto_alpha_shift: alpha,
            rto_beta_shift: beta,
            ..AssociationConfig::default()
        };
        let mut rto = RtoEstimator::new(&config);
        for sample in samples {
            match sample {
                Some(nanos) => rto.on_sample(Duration::from_nanos(nanos), &config),
                None => rto.back_off(&config),
            }
            prop_assert!(rto.rto() >= config.rto_min && rto.rto() <= config.rto_max);
        }
    }
}
