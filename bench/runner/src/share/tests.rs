use super::*;

#[test]
fn tenth_of_a_core_as_a_quota() {
    let one = limits(&Groups::One(PathBuf::new()), 0.1).unwrap();
    assert_eq!(one, [("cpu.cfs_period_us", "10000".to_owned()), ("cpu.cfs_quota_us", "1000".to_owned())]);
    let two = limits(&Groups::Two(PathBuf::new()), 0.25).unwrap();
    assert_eq!(two, [("cpu.max", "2500 10000".to_owned())]);
    for wrong in [0.0, 0.05, 1.5, f64::NAN] {
        assert!(limits(&Groups::Two(PathBuf::new()), wrong).is_err());
    }
}

#[test]
fn both_versions_of_control_groups_are_found() {
    let root = std::env::temp_dir().join(format!("strandline-groups-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    assert_eq!(find(&root), None);
    fs::write(root.join("cgroup.subtree_control"), "memory pids\n").unwrap();
    assert_eq!(find(&root), None);
    fs::write(root.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    assert_eq!(find(&root), Some(Groups::Two(root.clone())));
    fs::create_dir_all(root.join("cpu")).unwrap();
    fs::write(root.join("cpu/cpu.shares"), "1024\n").unwrap();
    assert_eq!(find(&root), Some(Groups::One(root.join("cpu"))));
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn groups_of_runs_that_were_killed_are_removed() {
    let root = std::env::temp_dir().join(format!("strandline-left-{}", std::process::id()));
    let names =
        ["strandline-bench-4000001", "strandline-bench-4000002", "strandline-bench-", "another-4000001"];
    for name in names {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    remove_left(&root, |pid| pid == 4_000_002);
    let is_there = names.map(|name| root.join(name).exists());
    assert_eq!(is_there, [false, true, true, true]);
    fs::remove_dir_all(&root).unwrap();
}

/// The benchmark may have another scheduling, as here batch, which needs no privilege.
#[test]
fn group_is_entered_with_usual_scheduling() {
    let folder = std::env::temp_dir().join(format!("strandline-enter-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let share = Share { folder: folder.clone() };
    let output = std::process::Command::new("chrt")
        .args(["-b", "0"])
        .args(share.prefix())
        .args(["sh", "-c", "chrt -p $$"])
        .output()
        .unwrap();
    let entered = fs::read_to_string(folder.join("cgroup.procs")).unwrap();
    // Not a group of the kernel: no process is to be killed with it.
    fs::remove_file(folder.join("cgroup.procs")).unwrap();
    drop(share);
    assert!(entered.trim().parse::<u32>().is_ok(), "{entered}");
    let scheduling = String::from_utf8(output.stdout).unwrap();
    assert!(scheduling.contains("SCHED_OTHER"), "{scheduling}");
}
