use super::*;

#[test]
fn a_kernel_sctp_is_noticed() {
    let root = std::env::temp_dir().join(format!("strandline-io-{}", std::process::id()));
    assert_eq!(kernel_sctp(&root), None);
    std::fs::create_dir_all(root.join("proc/net")).unwrap();
    std::fs::write(root.join("proc/net/protocols"), "protocol size\nUDP 1\nTCP 1\n").unwrap();
    assert_eq!(kernel_sctp(&root), None);
    std::fs::write(root.join("proc/net/protocols"), "protocol size\nSCTPv6 1\nSCTP 1\n").unwrap();
    assert_eq!(kernel_sctp(&root), Some("/proc/net/protocols lists SCTP"));
    std::fs::create_dir_all(root.join("sys/module/sctp")).unwrap();
    assert_eq!(kernel_sctp(&root), Some("the module sctp is loaded"));
    std::fs::create_dir(root.join("proc/net/sctp")).unwrap();
    assert_eq!(kernel_sctp(&root), Some("/proc/net/sctp exists"));
    std::fs::remove_dir_all(&root).unwrap();
    let message = OpenError::KernelSctp { evidence: "/proc/net/sctp exists" }.to_string();
    assert!(message.contains("modprobe -r sctp"), "{message}");
}
