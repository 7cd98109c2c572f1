//! Converts a trace to layers of a drawing.

use std::collections::BTreeMap;

use super::read::{Event, Trace};
use crate::figure::{Layer, Look, Timeline, show};
use crate::plan::Transport;

/// Reasons for retransmission as named in traces, with text in the legend, colour and marker.
const AGAIN: [(&str, &str, (Transport, usize), usize); 4] = [
    ("lost", "retransmission: loss", (Transport::Tcp, 0), 2),
    ("probe", "tail-loss probe", (Transport::OtherSctp, 0), 3),
    ("timeout", "retransmission: time-out", (Transport::Tcp, 2), 1),
    ("unknown", "retransmission", (Transport::Tcp, 1), 0),
];

/// Value in traces of an ssthresh that doesn't limit cwnd.
const INFINITE: f64 = u32::MAX as f64;

/// The points of a layer: seconds and value.
type Points = Vec<(f64, f64)>;

fn layer(title: &str, colour: (Transport, usize), look: Look, points: Points) -> Layer {
    Layer { title: title.to_owned(), colour, look, points }
}

/// Returns the drawing of TSNs over time, in the direction that carried more data.
pub(super) fn sequence(trace: &Trace, port: u16, (from, to): (f64, f64)) -> Timeline {
    let sends = trace.sends(port);
    let mut first_tsn = None;
    let mut after = |tsn: u32| {
        let distance = tsn.wrapping_sub(*first_tsn.get_or_insert(tsn)) as i32;
        f64::from(distance) + 1.0
    };
    let [mut new, mut cumulative, mut gap] = [(); 3].map(|()| Points::new());
    let mut again: BTreeMap<&str, Points> = BTreeMap::new();
    for event in &trace.events {
        match event {
            Event::Data { t, port: of, sent, first, last, again: why, .. }
                if (*of, *sent) == (port, sends) =>
            {
                // TSNs count from the first of the whole trace, whichever part is drawn.
                after(*first);
                let place = (*t, after(*last));
                if (from..=to).contains(t) {
                    match why {
                        Some(why) => again.entry(why).or_default().push(place),
                        None => new.push(place),
                    }
                }
            }
            Event::Sack { t, port: of, sent, cumulative: tsn, gaps }
                if (*of, *sent) == (port, !sends) && (from..=to).contains(t) =>
            {
                let base = after(*tsn);
                cumulative.push((*t, base));
                gap.extend(gaps.iter().map(|(_, end)| (*t, base + f64::from(*end))));
            }
            _ => {}
        }
    }
    let words = if sends { "sent" } else { "received" };
    let mut layers = vec![
        layer("acknowledged cumulatively", (Transport::Udp, 0), Look::Steps, cumulative),
        layer("acknowledged beyond a gap", (Transport::Sctp, 1), Look::Dots, gap),
        layer(words, (Transport::Sctp, 0), Look::Dots, new),
    ];
    for (reason, title, colour, sign) in AGAIN {
        let points = again.remove(reason).unwrap_or_default();
        layers.push(layer(title, colour, Look::Signs(sign), points));
    }
    // Unknown reasons, which later versions may write.
    for (place, (reason, points)) in again.into_iter().enumerate() {
        layers.push(layer(
            &format!("retransmission: {reason}"),
            (Transport::Tcp, 3 + place),
            Look::Signs(0),
            points,
        ));
    }
    let (title, label) = ("TSN over time".to_owned(), "TSN, relative to the first".to_owned());
    Timeline { title, label, from_zero: false, layers }
}

/// Returns the drawing of windows over time, in kilobytes.
pub(super) fn window(trace: &Trace, port: u16, (from, to): (f64, f64)) -> Timeline {
    let mut paths: BTreeMap<&str, [Points; 3]> = BTreeMap::new();
    let mut rwnd = Points::new();
    let kilo = |bytes: &f64| bytes / 1000.0;
    for event in &trace.events {
        match event {
            Event::Path { t, port: of, peer, cwnd, ssthresh, flight }
                if *of == port && (from..=to).contains(t) =>
            {
                let [windows, thresholds, flights] = paths.entry(peer).or_default();
                windows.push((*t, kilo(cwnd)));
                // Skip ssthresh values that limit nothing.
                if *ssthresh < INFINITE {
                    thresholds.push((*t, kilo(ssthresh)));
                }
                flights.push((*t, kilo(flight)));
            }
            Event::Association { t, port: of, peer_rwnd } if *of == port && (from..=to).contains(t) => {
                rwnd.push((*t, kilo(peer_rwnd)));
            }
            _ => {}
        }
    }
    let most = paths.values().flat_map(|[windows, _, flights]| windows.iter().chain(flights));
    let most = most.map(|(_, size)| *size).fold(0.0, f64::max);
    let mut layers = Vec::new();
    // A value far above cwnd limits nothing and would flatten everything else: only the legend shows it.
    let near = |title: String, colour, points: Points| -> Layer {
        let (top, size) = (most * 1.5, points.iter().map(|(_, size)| *size).fold(0.0, f64::max));
        let title = if size > top { format!("{title} (off the scale: up to {})", show(size)) } else { title };
        let points = points.into_iter().map(|(t, size)| (t, size.min(top))).collect();
        layer(&title, colour, Look::Steps, points)
    };
    let several = paths.len() > 1;
    for (shade, (peer, [windows, thresholds, flights])) in paths.into_iter().enumerate() {
        let name = |what: &str| if several { format!("{what} to {peer}") } else { what.to_owned() };
        layers.push(near(name("ssthresh"), (Transport::OtherSctp, shade), thresholds));
        layers.push(layer(&name("in flight"), (Transport::Tcp, shade), Look::Steps, flights));
        layers.push(layer(&name("cwnd"), (Transport::Sctp, shade), Look::Steps, windows));
    }
    layers.insert(0, near("the peer's window".to_owned(), (Transport::Udp, 1), rwnd));
    let (title, label) = ("Windows over time".to_owned(), "kilobytes".to_owned());
    Timeline { title, label, from_zero: true, layers }
}
