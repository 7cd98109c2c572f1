//! The timing wheel: setting and expiring with few and with many deadlines.

use std::hint::black_box;
use std::time::Duration;

use strandline_proto::time::Time;
use strandline_proto::timer::TimerWheel;

const OPERATIONS: usize = 1_000_000;

pub(crate) fn table() {
    println!("{:>10} {:>14} {:>14}", "deadlines", "schedule ns", "expire ns");
    for count in [1, 1_000, 1_000_000_u32] {
        let full = || {
            let mut wheel = TimerWheel::new(Time::ZERO);
            for key in 0..count {
                wheel.schedule(key, at(key));
            }
            wheel
        };
        let schedule = super::nanos_each(OPERATIONS, full, |wheel| {
            for step in 0..OPERATIONS as u32 {
                // A multiplicative walk over the keys: neighbours in time are not neighbours in memory.
                wheel.schedule(step.wrapping_mul(2_654_435_761) % count, at(step) + Duration::from_millis(7));
            }
        });
        let rounds = (OPERATIONS as u32 / count).max(1);
        let expire = super::nanos_each((rounds * count) as usize, full, |wheel| {
            for round in 1..=rounds {
                let now = Time::ZERO + Duration::from_secs(60) * round;
                while let Some(key) = wheel.pop_expired(now) {
                    black_box(key);
                }
                if round < rounds {
                    for key in 0..count {
                        wheel.schedule(key, now + at(key).since(Time::ZERO));
                    }
                }
            }
        });
        println!("{count:>10} {schedule:>14.1} {expire:>14.1}");
    }
    println!("(expire: with setting the next deadline where there are fewer than {OPERATIONS})\n");
    heartbeats();
}

/// A million deadlines that recur every 30 seconds, as heartbeats do: the time that one tick's worth takes, in the
/// two minutes in which several slots of the coarse levels are due. The worst one holds up everything else.
fn heartbeats() {
    const TICK: Duration = Duration::from_nanos(1 << 20);
    let mut wheel = TimerWheel::new(Time::ZERO);
    (0..1_000_000).for_each(|key| wheel.schedule(key, at(key)));
    let mut now = Time::ZERO;
    let mut ticks: Vec<Duration> = (0..120_000)
        .map(|_| {
            now += TICK;
            let start = super::processor_time();
            while let Some(key) = wheel.pop_expired(now) {
                wheel.schedule(key, now + Duration::from_secs(30));
            }
            super::processor_time() - start
        })
        .collect();
    ticks.sort_unstable();
    let microseconds = |at: usize| ticks[at].as_secs_f64() * 1e6;
    println!("{:>10} {:>14} {:>14} {:>14}", "deadlines", "median us/tick", "99.9 %", "worst");
    let (median, most) = (microseconds(60_000), microseconds(119_880));
    println!("{:>10} {median:>14.1} {most:>14.1} {:>14.1}", 1_000_000, microseconds(119_999));
    println!("(every 30 seconds each, as heartbeats; a tick is 1,049 us)\n");
}

/// A time somewhere in the next 30 seconds, as heartbeats have.
fn at(key: u32) -> Time {
    Time::ZERO + Duration::from_micros(u64::from(key.wrapping_mul(2_654_435_761)) * 30 / 4295)
}
