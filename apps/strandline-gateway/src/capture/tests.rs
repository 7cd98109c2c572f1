use super::Capture;

fn shown(text: &str) -> Result<String, String> {
    text.parse::<Capture>().map(|capture| capture.to_string())
}

#[test]
fn entries_become_matches_of_nftables() {
    for (text, matches) in [
        ("10.2.0.0/16", "ip daddr 10.2.0.0/16 meta l4proto tcp"),
        ("10.2.0.7:80,443", "ip daddr 10.2.0.7/32 tcp dport { 80, 443 }"),
        ("!10.2.0.0/16:8000-8100", "ip daddr 10.2.0.0/16 tcp dport { 8000-8100 }"),
        ("10.2.0.0/16:*", "ip daddr 10.2.0.0/16 meta l4proto tcp"),
        ("2001:db8::/32", "ip6 daddr 2001:db8::/32 meta l4proto tcp"),
        ("[2001:db8::/32]:443", "ip6 daddr 2001:db8::/32 tcp dport { 443 }"),
        ("[2001:db8::7]:443", "ip6 daddr 2001:db8::7/128 tcp dport { 443 }"),
        ("[2001:db8::7]", "ip6 daddr 2001:db8::7/128 meta l4proto tcp"),
    ] {
        assert_eq!(shown(text).as_deref(), Ok(matches));
    }
}

#[test]
fn other_entries_are_refused() {
    for text in
        ["", "db.example:80", "10.2.0.0/33", "10.2.0.0/16:", "10.2.0.0/16:0", "10.2.0.0/16:9-8", "*:80"]
    {
        assert!(shown(text).unwrap_err().contains("is not NETWORK[:PORTS]"), "{text}");
    }
}
