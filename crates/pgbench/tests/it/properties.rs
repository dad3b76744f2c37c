//! What holds for every script.

use crate::interpreter::{Client, SEED, program};
use proptest::prelude::*;
use tenbin_pgbench::{CommandKind, Expr, Program, Protocol};

/// Pieces of scripts that together make sense now and then.
const SOUP: [&str; 74] = [
    "\\set x ",
    "\\if ",
    "\\elif ",
    "\\else",
    "\\endif",
    "\\sleep ",
    "\\shell ",
    "\\setshell x ",
    "\\gset",
    "\\aset p_",
    "\\startpipeline",
    "\\syncpipeline",
    "\\endpipeline",
    "\\;",
    "\\:",
    "\\",
    "\n",
    "\n",
    "\r\n",
    "\t",
    " ",
    " ",
    ";",
    "'",
    "\"",
    "$$",
    "$a$",
    "/*",
    "*/",
    "--",
    "select",
    ":x",
    "::",
    ":",
    ":1",
    "x",
    "é",
    "(",
    ")",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "~",
    "<",
    "<=",
    "<>",
    "=",
    "<<",
    "|",
    "#",
    "&",
    "AND",
    "OR",
    "NOT",
    "IS",
    "NULL",
    "TRUE",
    "CASE WHEN ",
    "THEN",
    "ELSE",
    "END",
    "0",
    "1",
    "9223372036854775808",
    "1.5e3",
    "random(1, 9)",
    "hash(",
    "abs(",
    "least(",
];

/// A program whose second command sets a variable to an expression, and that printed. The first
/// command gives all names the same slots in all programs.
fn printed(text: &str) -> Option<(Program, String)> {
    let program = program(
        &format!("\\set x :x + :y + :t + :s + :default_seed\n\\set x {text}"),
        &[],
    )
    .ok()?;
    let text = expr(&program)?.display(program.names()).to_string();
    Some((program, text))
}

fn expr(program: &Program) -> Option<&Expr> {
    match &program.scripts()[0].commands[1].kind {
        CommandKind::Set(_, expr) => Some(expr),
        _ => None,
    }
}

fn assert_same_after_printing(text: &str) {
    let Some((first, once)) = printed(text) else {
        return;
    };
    let (second, _) = printed(&once).unwrap_or_else(|| panic!("{text} printed as {once}"));
    assert_eq!(expr(&first), expr(&second), "{text} printed as {once}");
}

/// Runs a script whatever it is.
fn run(text: &str) {
    let Ok(program) = program(text, &["y=7", "t=true", "s=text"]) else {
        return;
    };
    for protocol in [Protocol::Simple, Protocol::Extended] {
        let _ = program.check(protocol).map_err(|error| error.to_string());
        let mut client = Client::new(&program, 0, &program.streams(SEED, 1, 1));
        if let Some((_, error)) = client.run(0, protocol).error {
            assert!(error.to_string().contains("error found here"));
        }
    }
}

/// An expression's text.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|value| value.to_string()),
        (0..20_i64).prop_map(|value| value.to_string()),
        any::<f64>()
            .prop_filter("finite", |x| x.is_normal())
            .prop_map(|x| format!("{x:?}")),
        prop::sample::select(vec![
            "NULL",
            "true",
            "FALSE",
            ":x",
            ":y",
            ":t",
            ":s",
            "0.0",
            "pi()",
            "-9223372036854775808",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 64, 4, |inner| {
        let unary = prop::sample::select(vec![
            "(-$)",
            "- $",
            "~$",
            "NOT $",
            "(NOT $)",
            "+$",
            "$ IS NULL",
            "($ IS NOT true)",
            "$ NOTNULL",
            "abs($)",
            "int($)",
            "double($)",
            "sqrt($)",
            "ln($)",
            "exp($)",
            "debug($)",
            "hash($)",
            "hash_fnv1a($)",
            "($)",
        ]);
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>", "AND", "OR", "<", ">=", "=", "<>",
            ">",
        ]);
        let call = prop::sample::select(vec![
            "random(",
            "mod(",
            "pow(",
            "hash(",
            "permute(",
            "least(",
            "greatest(",
            "permute(9, ",
            "random_gaussian(1, ",
            "random_zipfian(1, ",
            "random_exponential(1, ",
        ]);
        prop_oneof![
            (unary, inner.clone()).prop_map(|(form, x)| form.replace('$', &x)),
            (inner.clone(), binary, inner.clone(), any::<bool>()).prop_map(
                |(x, operator, y, bare)| {
                    if bare {
                        format!("{x} {operator} {y}")
                    } else {
                        format!("({x} {operator} {y})")
                    }
                }
            ),
            (call, inner.clone(), inner.clone()).prop_map(|(f, x, y)| format!("{f}{x}, {y})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(x, y, z)| { format!("CASE WHEN {x} THEN {y} ELSE {z} END") }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read(text in ".{0,80}", command in "(\\\\[a-z]{0,6} )?") {
        run(&format!("{command}{text}"));
        run(&text.replace(['a', 'b', 'c'], "\\").replace(['d', 'e'], "\n"));
    }

    #[test]
    fn any_soup_is_read(pieces in prop::collection::vec(prop::sample::select(SOUP.to_vec()), 0..40)) {
        run(&pieces.concat());
        run(&pieces.join(" "));
        assert_same_after_printing(&pieces.concat());
        assert_same_after_printing(&pieces.join(" "));
    }

    #[test]
    fn expressions_print_what_they_are(text in expression()) {
        assert_same_after_printing(&text);
    }

    #[test]
    fn expressions_have_a_value_or_an_error(text in expression()) {
        run(&format!("\\set x 3\n\\set x {text}\n\\if {text}\nselect :x;\n\\endif"));
    }

    #[test]
    fn overflow_is_an_error(x: i64, y: i64, small in -3..3_i64) {
        for y in [y, small] {
            let negative = |value: i64| if value < 0 { format!("({value})") } else { value.to_string() };
            for (operator, expected) in [
                ("+", x.checked_add(y)),
                ("-", x.checked_sub(y)),
                ("*", x.checked_mul(y)),
                ("/", x.checked_div(y)),
                ("%", if y == 0 { None } else { Some(x.wrapping_rem(y)) }),
            ] {
                let text = format!("\\set x debug({} {operator} {})", negative(x), negative(y));
                let program = program(&text, &[]).unwrap();
                let outcome =
                    Client::new(&program, 0, &program.streams(SEED, 1, 1)).run(0, Protocol::Simple);
                let value = outcome.debug.first().map(|(_, value)| value.clone());
                prop_assert_eq!(value, expected.map(|value| format!("int {value}")));
                prop_assert_eq!(outcome.error.is_some(), expected.is_none());
            }
        }
    }
}

#[test]
fn printing_is_readable() {
    for (text, printed_as) in [
        ("1+2*-x", None),
        ("1+2*- :x", Some("(1 + (2 * (0 - :x)))")),
        (
            "~1|:x>hash(3)",
            Some("(hash_murmur2(3, :default_seed) < ((~1) | :x))"),
        ),
        ("not :x notnull", Some("(NOT (NOT (:x IS NULL)))")),
        (
            "case when 1 then 2 end",
            Some("CASE WHEN 1 THEN 2 ELSE NULL END"),
        ),
        (
            "-9223372036854775808 + 1e300",
            Some("(-9223372036854775808 + 1e300)"),
        ),
    ] {
        assert_eq!(
            printed(text).map(|(_, text)| text).as_deref(),
            printed_as,
            "{text}"
        );
    }
}

#[test]
fn depth_is_limited() {
    let n = 100_000;
    for (text, fits) in [
        ("1".to_owned() + &"+1".repeat(n), true),
        ("1 > 1".to_owned() + &" is null > 1".repeat(n), false),
        ("(".repeat(n), false),
        ("-".repeat(n) + "1", false),
        ("not ".repeat(n) + "true", false),
        ("case when ".repeat(n), false),
        ("abs(".repeat(n), false),
        (":x = 1 and ".repeat(n) + "not true is null", true),
        ("(".repeat(199) + "1" + &")".repeat(199), true),
        ("1 + (".repeat(99) + "1" + &")".repeat(99), true),
        ("abs(".repeat(199) + "1" + &")".repeat(199), true),
        (
            "case when ".repeat(199) + "1" + &" then 1 end".repeat(199),
            true,
        ),
        (
            "case when 1 then 2".to_owned() + &" when 1 then 2".repeat(n) + " end",
            true,
        ),
    ] {
        match program(&format!("\\set x 1\n\\set x {text}"), &[]) {
            Ok(program) => {
                assert!(fits, "{}", &text[..80]);
                let mut client = Client::new(&program, 0, &program.streams(SEED, 1, 1));
                assert_eq!(client.run(0, Protocol::Simple).error, None);
                assert!(
                    !expr(&program)
                        .unwrap()
                        .display(program.names())
                        .to_string()
                        .is_empty()
                );
            }
            Err(error) => {
                assert!(error.to_string().contains("nests too deep"), "{error}");
                assert!(!fits, "{}", &text[..80]);
            }
        }
    }
}
