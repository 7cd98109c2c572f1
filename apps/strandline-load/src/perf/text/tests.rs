use super::*;
use crate::perf::protocol::ShardReport;

#[test]
fn a_flood_is_told_only_if_there_was_one() {
    let shard = |inits, inits_shed| ShardReport { inits, inits_shed, ..ShardReport::default() };
    let side = |by_shard| SideReport { by_shard, ..SideReport::default() };
    assert_eq!(flood("server", &side(vec![shard(7, 0), shard(1, 0)])), None);
    let told = flood("server", &side(vec![shard(7, 0), shard(200_000, 3_000)]));
    assert_eq!(
        told.as_deref(),
        Some("INITs at the server: 200,007 answered, 3,000 too many and dropped unread")
    );
}

#[test]
fn numbers_can_be_read() {
    assert_eq!(amount(999.4, "B"), "999 B");
    assert_eq!(amount(999.6, "B"), "1.00 KB");
    assert_eq!(amount(12_345.0, "B"), "12.3 KB");
    assert_eq!(amount(8.96e9, "bit/s"), "8.96 Gbit/s");
    assert_eq!(amount(99.96e9, "bit/s"), "100 Gbit/s");
    assert_eq!([micros(85.4), micros(999.9)], ["85 us", "1.0 ms"]);
}
