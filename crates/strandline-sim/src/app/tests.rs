//! Events whose numbers are those of before a restart.

use strandline_proto::config::EndpointConfig;

use super::*;

const ID: AssociationId = AssociationId { slot: 0, generation: 0 };

fn plan() -> Plan {
    Plan {
        messages: 0,
        sizes: Sizes { first: 1, last: 1 },
        streams: 1,
        unordered: 0.0,
        immediate: 0.0,
        gap_max: Duration::ZERO,
        reading: Reading::Prompt,
        echo: false,
        ending: Ending::Never,
        reconfigure: None,
        schedule: None,
        limits: None,
        relocate: None,
        keys: None,
        dynamic: None,
    }
}

/// Returns what an established application with no streams left finds wrong about each event and about its next act.
fn judge(events: &[Event]) -> Vec<bool> {
    let mut random = Random::new(1);
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), random.seed(), Time::ZERO).expect("a valid configuration");
    let mut app = App::new(Time::ZERO, End { host: 0, life: 0, id: ID }, 1, None, plan());
    app.up = true;
    let mut cx = Context {
        now: Time::ZERO,
        endpoint: &mut endpoint,
        ledger: &mut Ledger::new(0),
        random: &mut random,
        last_expiry: Duration::ZERO,
        keys_last: Duration::ZERO,
        wakes: &mut Vec::new(),
        notes: &mut Vec::new(),
    };
    let mut found: Vec<_> = events.iter().map(|event| app.on_event(&mut cx, event).is_err()).collect();
    found.push(app.act(&mut cx).is_err());
    found
}

/// A request for more streams ends because the peer restarts: that is reported first, with the number of streams that
/// there were. Without a restart there are never fewer.
#[test]
fn streams_are_fewer_only_after_a_restart() {
    let changed = |outcome| Event::StreamsChanged { outcome, outbound_streams: 101, inbound_streams: 39 };
    let restarted = Event::Restarted { unread: 0, cut: None };
    assert_eq!(judge(&[changed(Outcome::Failed), restarted]), [false, false, false]);
    assert_eq!(judge(&[changed(Outcome::Failed)]), [false, true]);
    assert_eq!(judge(&[changed(Outcome::Performed)]), [true, true]);
}
