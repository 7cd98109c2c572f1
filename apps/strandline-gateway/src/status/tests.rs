use std::time::Duration;

use serde_json::json;

use super::{add_rates, size, table};

#[test]
fn rates_are_differences_of_two_looks() {
    let before = json!({"connections": [{"id": 7, "bytes_up": 1000, "bytes_down": 0}]});
    let mut now = json!({
        "peers": [{"name": "office", "up": true}],
        "associations": [
            {"paths": [
                {"address": "10.1.0.2:9899", "state": "Active"},
                {"address": "10.12.0.2:9899", "state": "Inactive"},
            ]},
            {"paths": [{"address": "10.12.0.2:9899", "state": "Inactive"}]},
        ],
        "open": 2,
        "connections": [
            {"id": 7, "listener": "socks", "destination": "a:1", "bytes_up": 5000, "bytes_down": 0, "stream": 3},
            {"id": 8, "listener": "forward", "destination": "b:2", "bytes_up": 0, "bytes_down": 3_000_000},
        ],
    });
    add_rates(&before, &mut now, Duration::from_secs(2));
    assert_eq!(now["connections"][0]["up_per_sec"], 2000.0);
    assert_eq!(now["connections"][1]["down_per_sec"], 1_500_000.0);
    let text = table(&now);
    assert!(text.contains("peer office  up") && text.contains("2 associations, 2 connections"), "{text}");
    assert_eq!(text.matches("path to 10.12.0.2:9899  Inactive").count(), 1, "{text}");
    assert!(!text.contains("10.1.0.2"), "{text}");
    assert!(text.find("b:2") < text.find("a:1"), "the fastest first: {text}");
    assert!(text.contains("1.5 MB"), "{text}");
}

#[test]
fn sizes_have_a_unit() {
    assert_eq!((size(999.0), size(1500.0), size(2e9)), ("999 B".into(), "1.5 kB".into(), "2.0 GB".into()));
}

#[test]
fn alerts_are_documented_and_have_metrics() {
    let rules = include_str!("../../../../docs/strandline-gateway-alerts.yml");
    let page = include_str!("../../../../docs/gateway.md");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert_eq!(page.lines().filter(|line| line.starts_with("| Gateway")).count(), alerts.len());
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        let severity =
            alert.split_once("        labels:\n          severity: ").unwrap_or_else(|| panic!("{name}")).1;
        let severity = severity.lines().next().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        assert!(page.contains(&format!("| {name} | {severity} |")), "{name} isn't in the table");
        for rest in alert.split("strandline_gateway_").skip(1) {
            let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap();
            assert!(page.contains(&format!("| `strandline_gateway_{}", &rest[..end])), "{}", &rest[..end]);
        }
    }
    // What is 1 while all is well has an alert.
    for line in page.lines().filter_map(|line| line.strip_prefix("| `strandline_gateway_")) {
        let end = line.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap();
        let name = &line[..end];
        assert!(
            !name.ends_with("_up") || rules.contains(&format!("strandline_gateway_{name} == 0")),
            "{name}"
        );
    }
}
