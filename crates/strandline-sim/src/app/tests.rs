//! Events whose numbers are those of before a restart.

use strandline_proto::config::EndpointConfig;
use strandline_wire::Tsn;

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
    let mut app = App::new(Time::ZERO, End { host: 0, life: 0, id: ID }, 1, None, plan());
    app.up = true;
    in_context(&mut VecDeque::new(), |cx| {
        let mut found: Vec<_> = events.iter().map(|event| app.on_event(cx, event).is_err()).collect();
        found.push(app.act(cx).is_err());
        found
    })
}

/// Calls `act` in a context at the beginning of time, with an endpoint of its own and these events to heed.
fn in_context<R>(
    caused: &mut VecDeque<(AssociationId, Event)>,
    act: impl FnOnce(&mut Context<'_>) -> R,
) -> R {
    let mut random = Random::new(1);
    let mut endpoint =
        Endpoint::new(EndpointConfig::default(), random.seed(), Time::ZERO).expect("a valid configuration");
    act(&mut Context {
        now: Time::ZERO,
        endpoint: &mut endpoint,
        ledger: &mut Ledger::new(0),
        random: &mut random,
        last_expiry: Duration::ZERO,
        keys_last: Duration::ZERO,
        wakes: &mut Vec::new(),
        notes: &mut Vec::new(),
        caused,
    })
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

/// A reset counts the messages that are not read when it happens: what a call has caused is heeded before more is read.
#[test]
fn caused_events_are_heeded_before_more_is_read() {
    let reset = |outcome| Event::AssociationReset {
        outcome,
        local_tsn: Tsn(1),
        peer_tsn: Tsn(2),
        unread: 1,
        cut: None,
    };
    let mut caused = VecDeque::new();
    let mut heeds_first = |event: Option<Event>| {
        caused.extend(event.map(|event| (ID, event)));
        in_context(&mut caused, |cx| cx.take_caused())
    };
    assert!(!heeds_first(None) && !heeds_first(Some(Event::Writable)));
    assert!(heeds_first(Some(reset(Outcome::Performed))));
    assert!(heeds_first(None), "until it is heeded");
}
