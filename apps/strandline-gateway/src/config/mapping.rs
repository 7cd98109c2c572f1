//! Which connections become streams: a word for each peer, and rules.

use std::sync::Arc;

use strandline_ops::{ConfigErrors, Flaw};

use super::file::{self, File};
use super::{Fallback, Peer, flaw, wrong};
use crate::mapping::Map;
use crate::protocol::Destination;
use crate::rules::{Rule, RuleMatch, Rules};

/// Associations with a peer, unless the file says otherwise.
const CONTEXTS_MAX: u32 = 4;
const CONTEXTS_LIMIT: u32 = 16;
/// The listeners that rules may name: those whose connections are mapped.
const LISTENERS: [&str; 6] = ["forward", "socks", "http_connect", "preload", "redirect", "tproxy"];

/// What a rule says of the connections that it is for.
#[derive(Debug, Clone)]
pub(crate) struct MapRule {
    /// `None`: any.
    to: Option<Rules>,
    /// Empty: any.
    listeners: Vec<String>,
    peer: Option<String>,
    map: Map,
}

/// What the first rule that fits says, or the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatchedRule {
    pub(crate) map: Map,
    /// The rule lists the destination: it means the same host here and there.
    pub(crate) lists_destination: bool,
}

impl MapRule {
    fn look(&self, peer: &str, listener: &str, to: &Destination) -> Option<MatchedRule> {
        if self.peer.as_deref().is_some_and(|name| name != peer)
            || !(self.listeners.is_empty() || self.listeners.iter().any(|name| name == listener))
        {
            return None;
        }
        let listed = match &self.to {
            None => RuleMatch::BeingAny,
            Some(rules) => rules.list(to)?,
        };
        Some(MatchedRule { map: self.map, lists_destination: listed == RuleMatch::Plainly })
    }

    fn is_for_any(&self) -> bool {
        self.to.is_none() && self.listeners.is_empty() && self.peer.is_none()
    }
}

/// Returns what rules or the peer say of a connection.
pub(crate) fn ruled(rules: &[Arc<MapRule>], peer: &Peer, listener: &str, to: &Destination) -> MatchedRule {
    let found = rules.iter().find_map(|rule| rule.look(&peer.name, listener, to));
    found.unwrap_or(MatchedRule { map: peer.map, lists_destination: false })
}

/// Returns what a peer's table says: the word, and the most associations.
pub(super) fn check_peer(at: usize, peer: &file::Peer, errors: &mut ConfigErrors) -> (Map, u32) {
    let map = peer.map.unwrap_or(match peer.fallback {
        Fallback::Tcp => Map::Auto,
        Fallback::None => Map::Always,
    });
    if map == Map::Auto && peer.fallback == Fallback::None {
        errors.add(wrong(format!("peer[{at}].map"), NEEDS_FALLBACK));
    }
    let contexts_max = peer.contexts_max.unwrap_or(CONTEXTS_MAX);
    if !(1..=CONTEXTS_LIMIT).contains(&contexts_max) {
        let message = format!("a number from 1 to {CONTEXTS_LIMIT}");
        errors.add(wrong(format!("peer[{at}].contexts_max"), message));
    }
    (map, contexts_max)
}

const NEEDS_FALLBACK: &str =
    "\"auto\" needs fallback = \"tcp\": without it no connection goes directly unless a rule says \"never\"";

/// Checks the rules.
pub(super) fn check(file: &File, errors: &mut ConfigErrors) -> Vec<Arc<MapRule>> {
    let rules = file.map.iter().enumerate();
    rules.map(|(at, rule)| Arc::new(check_rule(at, rule, &file.peer, errors))).collect()
}

/// Returns what rules make useless.
pub(super) fn flaws(rules: &[Arc<MapRule>], peers: &[Peer]) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let is_for_any = |rule: &Arc<MapRule>| rule.is_for_any();
    if let Some(at) = rules.iter().position(is_for_any).filter(|at| at + 1 < rules.len()) {
        let text = format!("rules behind map[{at}] never count, because that one is for any connection");
        flaws.push(flaw("map", &text));
    }
    for peer in peers.iter().filter(|peer| !may_be_stream(rules, peer)) {
        flaws.push(flaw("peer.map", &format!("no connection becomes a stream to `{}`", peer.name)));
    }
    flaws
}

/// Returns whether a connection may become a stream to the peer.
pub(super) fn may_be_stream(rules: &[Arc<MapRule>], peer: &Peer) -> bool {
    let is_for = |rule: &MapRule| rule.peer.as_ref().is_none_or(|name| *name == peer.name);
    peer.map != Map::Never || rules.iter().any(|rule| rule.map != Map::Never && is_for(rule))
}

fn check_rule(at: usize, rule: &file::MapRule, peers: &[file::Peer], errors: &mut ConfigErrors) -> MapRule {
    let key = |key: &str| format!("map[{at}].{key}");
    let to = errors.take_all(&key("to"), rule.to.0.iter().map(|text| text.parse::<Rule>()));
    for listener in rule.listener.0.iter().filter(|listener| !LISTENERS.contains(&listener.as_str())) {
        let message = format!("there is no listener `{listener}`, only: {}", LISTENERS.join(", "));
        errors.add(wrong(key("listener"), message));
    }
    if let Some(name) = &rule.peer
        && !peers.iter().any(|peer| peer.name == *name)
    {
        let known = peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
        errors.add(wrong(key("peer"), format!("there is no peer `{name}`, only: {known}")));
    }
    let is_for = |peer: &&file::Peer| rule.peer.as_ref().is_none_or(|name| *name == peer.name);
    if rule.map == Map::Auto && peers.iter().filter(is_for).any(|peer| peer.fallback == Fallback::None) {
        errors.add(wrong(key("map"), NEEDS_FALLBACK));
    }
    MapRule {
        to: (!to.is_empty()).then(|| Rules::new(to)),
        listeners: rule.listener.0.clone(),
        peer: rule.peer.clone(),
        map: rule.map,
    }
}
