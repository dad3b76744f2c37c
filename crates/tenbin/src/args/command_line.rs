//! The command as given, for the record.

/// The command as given, passwords in connection strings replaced.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args()
        .map(|argument| without_password(&argument))
        .collect()
}

/// A text of several arguments, passwords in its connection strings replaced.
pub(crate) fn without_passwords(text: &str) -> String {
    let words: Vec<String> = text.split(' ').map(without_password).collect();
    words.join(" ")
}

fn without_password(argument: &str) -> String {
    if let Some((scheme, rest)) = argument.split_once("://")
        && let Some((login, place)) = rest.rsplit_once('@')
        && let Some((user, _)) = login.split_once(':')
    {
        return format!("{scheme}://{user}:***@{place}");
    }
    match argument.split_once("password=") {
        Some((before, rest)) => {
            let after = rest.find([' ', '&']).map_or("", |end| &rest[end..]);
            format!("{before}password=***{after}")
        }
        None => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_recorded() {
        let known = [
            ("postgres://me:secret@host/db", "postgres://me:***@host/db"),
            (
                "--dsn=postgres://me:a@b@host/db",
                "--dsn=postgres://me:***@host/db",
            ),
            ("postgres://me@host/db", "postgres://me@host/db"),
            (
                "host=/tmp password=secret dbname=x",
                "host=/tmp password=*** dbname=x",
            ),
            (
                "postgres://h/db?user=me&password=secret",
                "postgres://h/db?user=me&password=***",
            ),
            ("--pacing", "--pacing"),
        ];
        for (given, kept) in known {
            assert_eq!(without_password(given), kept);
        }
        let two = "--dsn postgres://a:b@c/d --set jit=off --dsn 'host=x password=y dbname=z'";
        let kept = "--dsn postgres://a:***@c/d --set jit=off --dsn 'host=x password=*** dbname=z'";
        assert_eq!(without_passwords(two), kept);
    }
}
