#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::init::PORTS_MIN;
use super::*;
use clap::Parser;
use strandline::{Association, AssociationConfig, Endpoint, SendInfo, Stack};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn plan(line: &str) -> Result<Plan> {
    Line::try_parse_from(std::iter::once("test").chain(line.split_whitespace()))?.args.plan()
}

#[test]
fn strangers_are_not_flooded() {
    for near in [
        "127.0.0.1",
        "127.9.8.7",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.1.1",
        "[::1]",
        "[fd00::1]",
    ] {
        plan(&format!("--to {near}:9899")).expect(near);
    }
    for far in ["192.0.2.1", "172.32.0.1", "8.8.8.8", "[2001:db8::1]", "[::ffff:8.8.8.8]"] {
        let error = plan(&format!("--to {far}:9899")).unwrap_err().to_string();
        assert!(error.contains("--i-own-this-network"), "{error}");
        plan(&format!("--to {far}:9899 --i-own-this-network")).expect(far);
    }
    for never in ["224.0.0.1:9899", "255.255.255.255:9899", "0.0.0.0:9899", "[ff02::1]:9899", "127.0.0.1:0"] {
        plan(&format!("--to {never} --i-own-this-network")).expect_err(never);
    }
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "--rate 0",
        "--rate nan",
        "--duration 0",
        "--duration 601",
        "--sockets 0",
        "--burst 65",
        "--port 0",
        "--from ::1",
    ] {
        plan(line).expect_err(line);
    }
}

/// A server under flood answers and keeps no state, and an association that existed before continues.
#[test]
fn a_flood_leaves_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let here: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let stack = Stack::builder().udp(here).unwrap();
        let endpoint = Endpoint::bind(&stack, 7007).unwrap();
        let to = stack.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((from, message)) = endpoint.recv_from().await {
                endpoint.send_to(from, message.data, SendInfo::default()).await.unwrap();
            }
        });
        let client = Stack::builder().remote_encapsulation_port(to.port()).udp(here).unwrap();
        // Below the ports of the flood: an INIT from the port of an association, but from another UDP port, is
        // refused with an ABORT.
        let config = AssociationConfig::default();
        let association =
            Association::connect_with(&client, (to.ip(), 7007), PORTS_MIN - 1, config).await.unwrap();

        let some = plan(&format!("--to {to} --duration 0.5 --rate 100000")).unwrap();
        let flooding = tokio::task::spawn_blocking(move || flood(&some, &mut Packets::new(7007, false)?));
        let mut echoes = 0;
        while !flooding.is_finished() || stack.stats().inits < 2 {
            association.send(b"still there?", SendInfo::default()).await.unwrap();
            assert_eq!(association.recv().await.unwrap().unwrap().data, "still there?");
            echoes += 1;
        }
        let sent = flooding.await.unwrap().unwrap();
        // What is sent now comes behind the flood: all of it has been received once this is answered.
        association.send(b"the last", SendInfo::default()).await.unwrap();
        assert_eq!(association.recv().await.unwrap().unwrap().data, "the last");
        assert!(sent.packets > 0 && echoes > 0, "{sent:?}");
        assert_eq!((sent.aborts, sent.other_answers, stack.association_count()), (0, 0, 1), "{sent:?}");
        assert!(stack.stats().inits > sent.init_acks, "the association's own INIT is one");
        // The server received the flood: it counted each INIT once, as answered or shed; the rest found a
        // full socket buffer.
        let arrived = stack.stats().inits + stack.stats().inits_shed;
        assert!((2..=sent.packets + 1).contains(&arrived), "{arrived} of {sent:?}");
        let shards = stack.shard_stats();
        assert_eq!(shards.iter().map(|shard| shard.inits + shard.inits_shed).sum::<u64>(), arrived);

        let few = plan(&format!("--to {to} --duration 0.1 --rate 20000")).unwrap();
        let plain = tokio::task::spawn_blocking(move || flood(&few, &mut Packets::new(7007, true)?));
        let plain = plain.await.unwrap().unwrap();
        assert!(plain.packets > 0);
        assert_eq!(stack.stats().inits + stack.stats().inits_shed, arrived, "the yardstick has no INITs");
        assert_eq!(plain.init_acks + plain.aborts + plain.other_answers, 0, "nobody answers what isn't SCTP");
    });
}
