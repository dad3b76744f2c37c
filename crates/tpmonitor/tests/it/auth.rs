//! Who gets in, and how the monitor gets in itself.

use crate::support::{Running, server};
use postgres::NoTls;
use tenbin_tpmonitor::{Auth, Config, Secret};

fn behind_a_password(auth: Auth, known: &'static str) -> Running {
    let server = server();
    let target = server.tcp_target();
    Running::before(server, move |config: &mut Config| {
        let listen = std::mem::take(&mut config.listen);
        *config = Config::in_front_of(&target, listen);
        config.auth = auth;
        if !known.is_empty() {
            // For clients; for the server the password itself is needed.
            let database = config.databases.get_mut("*").unwrap();
            database.user = Some(target.user.clone());
            database.password = target.password.as_deref().map(Secret::new);
            config.users.insert("someone".into(), Secret::new(known));
        }
    })
}

#[test]
fn the_password_of_the_connection_string_lets_in() {
    let monitor = behind_a_password(Auth::Scram, "");
    let password = server().tcp_target().password.unwrap();
    let mut client = monitor.config().password(&password).connect(NoTls).unwrap();
    assert_eq!(
        client.query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0),
        1
    );
    for wrong in ["", "wrong"] {
        let error = monitor
            .config()
            .password(wrong)
            .connect(NoTls)
            .err()
            .unwrap();
        let code = error.code().map(|code| code.code().to_owned());
        assert!(
            wrong.is_empty() || code.as_deref() == Some("28P01"),
            "{error}"
        );
    }
    let unknown = monitor
        .config()
        .user("nobody")
        .password(&password)
        .connect(NoTls);
    assert_eq!(unknown.err().unwrap().code().unwrap().code(), "28P01");
}

#[test]
fn passwords_and_what_servers_keep_of_them() {
    // MD5 of "pencilsomeone".
    let md5 = "md5ef768328efb7cb94063f6d3e71baf935";
    for (auth, known) in [
        (Auth::Md5, "pencil"),
        (Auth::Md5, md5),
        (Auth::Scram, "pencil"),
    ] {
        let monitor = behind_a_password(auth, known);
        let mut config = monitor.config();
        config.user("someone");
        let mut client = config.password("pencil").connect(NoTls).unwrap();
        let user: String = client
            .query_one("SELECT current_user::text", &[])
            .unwrap()
            .get(0);
        assert_eq!(user, "postgres");
        let refused = config.password("pen").connect(NoTls).err().unwrap();
        assert_eq!(refused.code().unwrap().code(), "28P01");
    }
}
