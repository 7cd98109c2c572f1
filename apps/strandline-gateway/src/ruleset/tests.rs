use super::{Captured, Ruleset};

fn captured(listen: &str, is_tproxy: bool, captures: &[&str]) -> Captured {
    let captures = captures.iter().map(|text| text.parse().unwrap()).collect();
    Captured { listen: listen.parse().unwrap(), is_tproxy, captures }
}

#[test]
fn a_loopback_listener_gets_the_hosts_own_connections() {
    let rules = Ruleset::new(7, vec![captured("127.0.0.1:99", false, &["10.2.0.0/16", "!10.2.1.0/24:22"])]);
    let expected = "\
table inet strandline_gateway_7 {
  flags owner;
  chain own {
    type nat hook output priority -100; policy accept;
    meta mark 0x53544701 return;
    fib daddr type local return;
    ip daddr 10.2.1.0/24 tcp dport { 22 } return;
    ip daddr 10.2.0.0/16 meta l4proto tcp redirect to :99;
  }
}
";
    assert_eq!(rules.nft(), expected);
    assert!(rules.routes().is_empty() && rules.undo().is_empty());
}

#[test]
fn other_listeners_get_forwarded_connections_too() {
    let any = Ruleset::new(7, vec![captured("[::]:99", false, &["10.2.0.0/16"])]).nft();
    assert!(any.contains("chain forwarded") && any.matches("redirect to :99").count() == 2, "{any}");
    let one = Ruleset::new(7, vec![captured("10.1.0.1:99", false, &["10.2.0.0/16"])]).nft();
    assert!(one.matches("dnat ip to 10.1.0.1:99").count() == 2, "{one}");
}

#[test]
fn tproxy_needs_routes_to_this_host() {
    let rules = Ruleset::new(7, vec![captured("[::1]:99", true, &["2001:db8::/32"])]);
    let text = rules.nft();
    assert!(text.contains("meta mark set 0x53544702 tproxy ip6 to [::1]:99 accept"), "{text}");
    assert!(!text.contains("chain own"), "{text}");
    let routes = ["-6 route add local ::/0 dev lo table 7", "-6 rule add fwmark 0x53544702 lookup 7"];
    assert_eq!(rules.routes(), routes);
    assert_eq!(rules.undo(), ["-6 rule del fwmark 0x53544702 lookup 7", "-6 route flush table 7"]);
}
