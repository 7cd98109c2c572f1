use super::*;

/// Output of a kernel of 6.18.
const SOCKSTAT: &str = "sockets: used 12\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 175\n\
     UDP: inuse 0 mem 158\nUDPLITE: inuse 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n";

#[test]
fn numbers_are_found() {
    assert_eq!(kilobytes("VmRSS:\t  100 kB\nRssAnon:\t   12 kB\n", "RssAnon:"), Some(12 * 1024));
    assert_eq!(kilobytes("Slab:    x kB", "Slab:"), None);
    assert!(of_process(std::process::id()).unwrap() > 0);
    assert!(slab().unwrap() > 0);
}

#[test]
fn tcp_and_udp_buffers_are_distinguished() {
    assert_eq!(buffer_pages(SOCKSTAT, "TCP:"), Some(175));
    assert_eq!(buffer_pages(SOCKSTAT, "UDP:"), Some(158));
    assert_eq!(buffer_pages(SOCKSTAT, "UDPLITE:"), None);
    assert_eq!(buffer_pages("", "TCP:"), None);
}

#[test]
fn slab_cache_counts_objects_and_slab_share() {
    let line = "TCP                  105    169   2368   13    8 : tunables    0    0    0 : slabdata     13     13      0";
    let cache = slab_cache(line).unwrap();
    assert_eq!((cache.name.as_str(), cache.objects), ("TCP", 105));
    assert!((cache.object_bytes - 8.0 * 4096.0 / 13.0).abs() < 1e-9, "{cache:?}");
    for nonsense in ["", "TCP", "TCP 105 169", "TCP 105 169 2368 0 8 : tunables", "TCP a 169 2368 13 8"] {
        assert_eq!(slab_cache(nonsense), None, "{nonsense}");
    }
}

#[tokio::test]
async fn peak_during_an_operation_is_kept() {
    let seen = tokio::sync::Notify::new();
    let looks = std::cell::Cell::new(0);
    let look = || {
        looks.set(looks.get() + 1);
        if looks.get() == 3 {
            seen.notify_one();
        }
        let tcp = [5, 7, 90].get(looks.get() - 1).copied().unwrap_or(6);
        SocketBuffers { tcp, udp: 8 - tcp.min(7) }
    };
    let work = async {
        seen.notified().await;
        "done"
    };
    assert_eq!(most_during(work, look).await, ("done", SocketBuffers { tcp: 90, udp: 3 }));
    assert!(looks.get() > 3, "once more in the end: {looks:?}");
}
