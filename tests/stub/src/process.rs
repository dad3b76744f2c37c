//! A stub in a process of its own, told what to do on its standard input and ended by its end.

use crate::table::{Answer, Effect, Table};
use crate::{Options, Stub, dsn};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A stub in a process of its own; dropping it ends the process.
#[derive(Debug)]
pub struct StubProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    directory: PathBuf,
    port: u16,
}

impl StubProcess {
    /// Starts `program`, which must call [`serve`] (this crate's binary does), and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be run or does not come up.
    pub fn start(program: &Path, options: &Options) -> io::Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a child without pipes");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        input.write_all(written(options).as_bytes())?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        let place = line
            .trim_end()
            .split_once(' ')
            .and_then(|(port, directory)| Some((port.parse().ok()?, PathBuf::from(directory))));
        let Some((port, directory)) = place else {
            child.wait()?;
            return Err(io::Error::other(format!(
                "{} is no stub: it said {line:?}",
                program.display()
            )));
        };
        Ok(Self {
            child,
            input: Some(input),
            output,
            directory,
            port,
        })
    }

    /// A connection string that leads there through the Unix socket.
    #[must_use]
    pub fn dsn(&self) -> String {
        dsn(&self.directory, self.port)
    }

    /// The Unix socket's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The port, of the Unix socket's name and of TCP on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id: for SIGSTOP and SIGCONT, and for reading its CPU time.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Statements executed so far.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn statements(&mut self) -> io::Result<u64> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"statements\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim_end().parse().map_err(io::Error::other)
    }
}

impl Drop for StubProcess {
    fn drop(&mut self) {
        // The end of its input ends it, and it clears up behind itself.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Runs a stub as the options on standard input say, until standard input ends.
///
/// # Errors
/// When the input makes no sense or the stub cannot be started.
pub fn serve() -> io::Result<()> {
    // Thousands of connections need as many descriptors as there are to be had.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let mut lines = io::stdin().lock().lines();
    let stub = Stub::start(read(&mut lines)?)?;
    println!("{} {}", stub.port(), stub.directory().display());
    for line in lines {
        if line? == "statements" {
            println!("{}", stub.statements());
        }
    }
    Ok(())
}

/// Options as text: the delay, then an answer a line, then `start`.
fn written(options: &Options) -> String {
    let mut text = format!("delay {}\n", options.delay.as_nanos());
    for (key, answer) in &options.table.answers {
        let effect = match answer.effect {
            Effect::None => "none",
            Effect::Fail => "fail",
            Effect::Close => "close",
        };
        let [key, description, bytes] =
            [key.as_bytes(), &answer.description, &answer.bytes].map(hex);
        text += &["answer", &key, effect, &description, &bytes].join(" ");
        text.push('\n');
    }
    text + "start\n"
}

fn read(lines: &mut impl Iterator<Item = io::Result<String>>) -> io::Result<Options> {
    let mut options = Options {
        table: Table::new(),
        delay: Duration::ZERO,
    };
    for line in lines {
        let line = line?;
        let fields: Vec<_> = line.split(' ').collect();
        let understood = match fields[..] {
            ["start"] => return Ok(options),
            ["delay", nanoseconds] => nanoseconds
                .parse()
                .ok()
                .map(|count| options.delay = Duration::from_nanos(count)),
            ["answer", key, effect, description, bytes] => answer(effect, description, bytes)
                .zip(unhex(key).and_then(|key| String::from_utf8(key).ok()))
                .map(|(answer, key)| {
                    options.table.answers.insert(key, answer);
                }),
            _ => None,
        };
        understood.ok_or_else(|| {
            io::Error::other(format!("the stub cannot make sense of the line {line:?}"))
        })?;
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn answer(effect: &str, description: &str, bytes: &str) -> Option<Answer> {
    let effect = match effect {
        "none" => Effect::None,
        "fail" => Effect::Fail,
        "close" => Effect::Close,
        _ => return None,
    };
    Some(Answer {
        description: unhex(description)?,
        bytes: unhex(bytes)?,
        effect,
    })
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect()
}
