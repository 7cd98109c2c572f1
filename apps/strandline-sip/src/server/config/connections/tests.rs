use super::*;

fn read(text: &str) -> Result<ConnectionLimits, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut errors = ConfigErrors::default();
    let checked = check(&table, &mut errors);
    errors.finish().map(|()| checked).map_err(|error| error.to_string())
}

#[test]
fn each_key_counts_for_itself() {
    assert_eq!(read(""), Ok(ConnectionLimits::default()));
    let all = "first_message_secs = 7\nidle_secs = 8\nkeep_alive_secs = 9\nwrite_secs = 10\n\
               buffered_bytes_max = 2000000\n";
    let secs = Duration::from_secs;
    let wanted = ConnectionLimits {
        first_message: secs(7),
        idle: Some(secs(8)),
        keep_alive: secs(9),
        write: secs(10),
        buffered_bytes_max: 2_000_000,
    };
    assert_eq!(read(all), Ok(wanted));
    assert_eq!(read("idle_secs = 0").map(|limits| limits.idle), Ok(None));
}

#[test]
fn invalid_values_are_reported_with_their_key() {
    for key in ["first_message_secs", "idle_secs", "keep_alive_secs", "write_secs"] {
        for secs in [4, 32_768] {
            let told = read(&format!("{key} = {secs}")).unwrap_err();
            assert_eq!(told, format!("connections.{key}: {secs} is not between 5 and 32767"));
        }
        for secs in [5, 32_767] {
            assert!(read(&format!("{key} = {secs}")).is_ok());
        }
    }
    let told = read("buffered_bytes_max = 1048575").unwrap_err();
    assert_eq!(told, "connections.buffered_bytes_max: 1048575 is less than the minimum of 1048576");
    assert!(read("idle = 5").unwrap_err().contains("unknown field `idle`"));
}
