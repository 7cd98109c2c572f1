use super::*;

#[test]
fn numbers_are_found() {
    assert_eq!(kilobytes("VmRSS:\t  100 kB\nRssAnon:\t   12 kB\n", "RssAnon:"), Some(12 * 1024));
    assert_eq!(kilobytes("Slab:    x kB", "Slab:"), None);
    let sockets =
        "sockets: used 3\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 31\nUDP: inuse 4 mem 9\nUDPLITE: inuse 0\n";
    assert_eq!(buffer_pages(sockets), 40);
    let line = "TCP 40 91 2368 13 8 : tunables 0 0 0 : slabdata 7 9 0";
    assert_eq!(slab_cache(line), Some(("TCP".to_owned(), 9 * 8 * 4096)));
    assert!(of_process(std::process::id()).unwrap() > 0);
    assert!(of_kernel().unwrap() > 0);
}

#[tokio::test]
async fn the_most_that_was_seen_while_something_was_done_is_kept() {
    let seen = tokio::sync::Notify::new();
    let looks = std::cell::Cell::new(0);
    let look = || {
        looks.set(looks.get() + 1);
        if looks.get() == 3 {
            seen.notify_one();
        }
        [5, 7, 90].get(looks.get() - 1).copied().unwrap_or(6)
    };
    let work = async {
        seen.notified().await;
        "done"
    };
    assert_eq!(most_during(work, look).await, ("done", 90));
    assert!(looks.get() > 3, "once more in the end: {looks:?}");
}
