#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use super::*;
use crate::path::Link;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// The RTO follows from the measurements again, and a running T3-rtx expires accordingly without a further
/// measurement.
#[test]
fn a_needless_time_out_leaves_no_back_off() {
    let config = AssociationConfig::default();
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    path.on_rtt(at(100), at(0), &config);
    let measured = path.rto.rto();
    for running in [true, false] {
        path.on_data_sent(at(200), 1000, 988, true, false);
        for ms in [1200, 3200] {
            path.on_rtx_timeout(at(ms), 988, &config);
        }
        assert_eq!(path.rto.rto(), measured * 4);
        if running {
            path.start_rtx(at(3200));
        }
        path.forget_back_off(at(3300), &config);
        let deadline = if running { at(3300) + measured } else { Time::MAX };
        assert_eq!((path.rto.rto(), path.rtx_deadline), (measured, deadline));
        path.stop_rtx();
    }
}
