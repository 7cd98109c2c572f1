//! Fuzz target: arbitrary bytes as the response of a name server.
#![allow(clippy::panic, reason = "a fuzz target stops at what breaks a promise")]

use std::net::IpAddr;
use std::time::Duration;

use futures_util::FutureExt;
use hickory_resolver::proto::op::Message;

use super::{address_in, naptr_in, srv_in};
use crate::codec::{Host, Uri};
use crate::resolution::{Found, Naptr, Ours, QueryResult, Question, Records, Srv, locate_servers};
use crate::transaction::Protocol;

/// Answers every query with this response.
struct Always(Message);

impl Always {
    fn records<T>(&self, read: impl Fn(&hickory_resolver::proto::rr::RData) -> Option<T>) -> QueryResult<T> {
        let records = self.0.answers.iter();
        let ttl = records.clone().map(|record| record.ttl).min().unwrap_or_default();
        Ok((records.filter_map(|record| read(&record.data)).collect(), Duration::from_secs(ttl.into())))
    }
}

impl Records for Always {
    async fn naptr(&self, _: &str) -> QueryResult<Naptr> {
        self.records(naptr_in)
    }

    async fn srv(&self, _: &str) -> QueryResult<Srv> {
        self.records(srv_in)
    }

    async fn addresses(&self, _: &str, v6: bool) -> QueryResult<IpAddr> {
        self.records(|data| address_in(data).filter(|address| address.is_ipv6() == v6))
    }
}

/// Servers found have addresses; both are limited in number and lifetime.
pub fn run(bytes: &[u8]) {
    let Ok(answer) = Message::from_vec(bytes) else { return };
    let records = Always(answer);
    let ours = Ours { protocols: Protocol::ALL.map(|protocol| (protocol, true, true)).to_vec() };
    for text in ["sip:example.com", "sips:example.com", "sip:example.com:5070;transport=tcp"] {
        let Ok(Uri::Sip(uri)) = Uri::parse(text.as_bytes()) else { panic!("{text}") };
        let Some(question) = Question::of(&uri, &Host::Name(b"example.com")) else { panic!("{text}") };
        // No query waits.
        let Some(answer) = locate_servers(&question, &ours, &records).now_or_never() else {
            panic!("it waits")
        };
        assert!((1..=86_400).contains(&answer.ttl.as_secs()));
        let Found::Servers(servers) = answer.found else { continue };
        assert!((1..=1024).contains(&servers.len()));
        for server in servers {
            assert!((1..=32).contains(&server.addresses.len()));
            assert!(server.addresses.iter().all(|address| address.port() != 0));
        }
    }
}
