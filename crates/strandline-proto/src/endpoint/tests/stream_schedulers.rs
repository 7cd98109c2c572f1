//! Stream schedulers and the values of streams (RFC 8260 sections 3, 4.3.2 and 4.3.3).

use super::raw::*;
use super::restart::crash;
use super::*;
use crate::config::StreamScheduler;
use crate::endpoint::StreamValue;
use crate::error::StreamValueError;
use strandline_wire::Chunk;
use strandline_wire::number::Tsn;

/// Returns the streams of the DATA in these packets, packet by packet.
fn streams(packets: &[Sent]) -> Vec<Vec<u16>> {
    let of = |sent: &Sent| -> Vec<u16> {
        let stream =
            |chunk: Chunk<'_>| if let Chunk::Data(data) = chunk { Some(data.stream.0) } else { None };
        chunks(sent).into_iter().filter_map(stream).collect()
    };
    packets.iter().map(of).filter(|streams| !streams.is_empty()).collect()
}

/// Sends a message on each of these streams at once. Returns the streams in the order of the chunks.
fn order(pair: &mut Pair, host: usize, id: AssociationId, on: &[u16]) -> Vec<u16> {
    for stream in on {
        pair.send(host, id, *stream, b"message");
    }
    let from = pair.log.len();
    pair.collect();
    streams(&pair.log[from..]).concat()
}

fn set(pair: &mut Pair, id: AssociationId, stream: u16, value: u16) -> Result<(), StreamValueError> {
    StreamValue { stream: StreamId(stream), value }.set(&mut pair.hosts[SERVER].endpoint, id)
}

fn value(pair: &Pair, id: AssociationId, stream: u16) -> Result<u16, StreamValueError> {
    StreamValue::of(&pair.hosts[SERVER].endpoint, id, StreamId(stream)).map(|found| found.value)
}

/// A scheduler and values that the application has set hold after a pause, another configuration of other parameters,
/// and a restart of the peer.
#[test]
fn settings_survive_pauses_and_restarts() {
    let (mut pair, _, server) = Pair::established();
    pair.hosts[SERVER].endpoint.set_stream_scheduler(server, StreamScheduler::Priority);
    set(&mut pair, server, 1, 5).unwrap();
    set(&mut pair, server, 70, 9).unwrap();
    let expected = [0, 1, 70];
    assert_eq!(order(&mut pair, SERVER, server, &[70, 1, 0]), expected);
    pair.pass(Duration::from_secs(100));
    assert_eq!(order(&mut pair, SERVER, server, &[70, 1, 0]), expected, "after a pause");
    pair.pass(Duration::from_secs(100));
    crash(&mut pair);
    pair.connect();
    pair.run();
    assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
    assert_eq!((value(&pair, server, 1), value(&pair, server, 0)), (Ok(5), Ok(0)));
    assert_eq!(order(&mut pair, SERVER, server, &[70, 1, 0]), expected, "after a restart");
}

/// The scheduler of a new configuration replaces the one that was set.
#[test]
fn configuration_replaces_the_scheduler() {
    let (mut pair, _, server) = Pair::established();
    set(&mut pair, server, 1, 5).unwrap();
    pair.hosts[SERVER].endpoint.set_stream_scheduler(server, StreamScheduler::Priority);
    let config = AssociationConfig::default();
    pair.hosts[SERVER].endpoint.configure(pair.now, server, Arc::new(config)).unwrap();
    assert_eq!(order(&mut pair, SERVER, server, &[1, 0]), [1, 0]);
    pair.pass(Duration::from_secs(100));
    assert_eq!(value(&pair, server, 1), Ok(5), "values stay");
}

/// A value can be set from the beginning. Those of streams that the peer doesn't allow are forgotten.
#[test]
fn values_hold_from_before_the_set_up() {
    let few = Arc::new(AssociationConfig { inbound_streams_max: 10, ..AssociationConfig::default() });
    let mut pair = Pair::with(config(1, CLIENT), EndpointConfig { association: few, ..config(1, SERVER) });
    let client = pair.connect();
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    endpoint.set_stream_scheduler(client, StreamScheduler::Priority);
    for stream in [1, 10] {
        StreamValue { stream: StreamId(stream), value: 7 }.set(endpoint, client).unwrap();
    }
    assert_eq!(order(&mut pair, CLIENT, client, &[1, 0]), [0_u16; 0]);
    pair.run();
    assert_eq!(streams(&pair.log).concat(), [0, 1]);
    let of = |stream| StreamValue::of(&pair.hosts[CLIENT].endpoint, client, StreamId(stream));
    assert_eq!(of(1).map(|found| found.value), Ok(7));
    assert_eq!(of(10), Err(StreamValueError::InvalidStream { stream: 10, streams: 10 }));
}

#[test]
fn values_need_an_association_and_a_stream() {
    let few = |host| {
        let association = AssociationConfig { outbound_streams: 3, ..AssociationConfig::default() };
        EndpointConfig { association: Arc::new(association), ..config(1, host) }
    };
    let (mut pair, client, server) = Pair::with(few(CLIENT), few(SERVER)).establish();
    assert_eq!(set(&mut pair, server, 2, u16::MAX), Ok(()));
    assert_eq!(value(&pair, server, 2), Ok(u16::MAX));
    let missing = StreamValueError::InvalidStream { stream: 3, streams: 3 };
    assert_eq!((set(&mut pair, server, 3, 1), value(&pair, server, 3)), (Err(missing), Err(missing)));
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap();
    pair.run();
    pair.hosts[SERVER].endpoint.release(server);
    assert!(matches!(set(&mut pair, server, 0, 1), Err(StreamValueError::UnknownAssociation(_))));
    assert!(matches!(value(&pair, server, 0), Err(StreamValueError::UnknownAssociation(_))));
}

/// What is not set, or set back, takes no memory.
#[test]
fn values_take_memory_only_while_set() {
    let (mut pair, _, server) = Pair::established();
    let total = |pair: &Pair| pair.hosts[SERVER].endpoint.memory(server).unwrap().total();
    let before = total(&pair);
    for stream in 0..1000 {
        set(&mut pair, server, stream, 3).unwrap();
    }
    assert!(total(&pair) > before + 4000);
    for stream in 0..1000 {
        set(&mut pair, server, stream, 0).unwrap();
    }
    assert_eq!(total(&pair), before);
    pair.hosts[SERVER].endpoint.set_stream_scheduler(server, StreamScheduler::Priority);
    pair.hosts[SERVER].endpoint.set_stream_scheduler(server, StreamScheduler::FirstComeFirstServed);
    assert_eq!(total(&pair), before);
}

/// Section 3.3: a packet has chunks of one stream only, with and without retransmissions in it.
#[test]
fn packets_with_retransmissions_have_one_stream() {
    let mut raw = Raw::configured(|config| {
        config.stream_scheduler = StreamScheduler::RoundRobinPerPacket;
        config.path_mtu_max = config.path_mtu_initial;
    });
    for stream in [0, 0, 1, 2, 1] {
        raw.pair.send(SERVER, raw.server, stream, &[0x55; 100]);
    }
    let sent = raw.heard();
    assert_eq!(streams(&sent), [vec![0, 0], vec![1, 1], vec![2]]);
    // The first chunk is missing three times; more is queued by then.
    raw.say_sack(0, 1 << 20, &[(2, 2)]);
    raw.say_sack(0, 1 << 20, &[(2, 3)]);
    raw.pair.send(SERVER, raw.server, 3, &[0x55; 100]);
    raw.pair.send(SERVER, raw.server, 4, &[0x55; 100]);
    let sent = raw.say_sack(0, 1 << 20, &[(2, 5)]);
    assert_eq!(streams(&sent), [[0], [3], [4]]);
    assert_eq!(tsns(&sent)[0], [Tsn(raw.server_tsn.0)]);
}
