//! Messages for programs: one JSON object a line, as `docs/diagnostics.schema.json` says.

use super::{Place, Report};
use cubin::json::Json;

pub fn print(report: &Report) -> String {
    let text = |text: &str| Json::text(text);
    let or_null = |value: Option<&str>| value.map_or(Json::Null, Json::text);
    let texts = |list: &[String]| Json::list(list, |item| Json::text(item));
    let place = |place: &Place| self::place(report, place);
    let object = Json::Object(vec![
        ("kind", text("message")),
        ("severity", text(report.severity.padded().trim_end())),
        ("code", or_null(report.code)),
        ("message", text(report.message)),
        ("file", or_null(report.file)),
        ("place", report.place.as_ref().map_or(Json::Null, place)),
        ("related", Json::list(&report.related, place)),
        ("notes", texts(&report.notes)),
        ("help", texts(&report.help)),
        ("plain", text(report.plain.trim_end())),
    ]);
    object.compact() + "\n"
}

fn place(report: &Report, place: &Place) -> Json {
    let source = report.source.unwrap_or_default();
    let start = (place.span.start as usize).min(source.len());
    let end = (place.span.end as usize).clamp(start, source.len());
    let column = start - source[..start].rfind('\n').map_or(0, |at| at + 1) + 1;
    Json::Object(vec![
        ("line", Json::Number(place.line.into())),
        ("column", Json::Number(column as u64)),
        ("start", Json::Number(start as u64)),
        ("end", Json::Number(end as u64)),
        ("text", Json::text(&source[start..end])),
        ("label", Json::text(&place.label)),
    ])
}

/// The last line.
pub fn summary(errors: usize, warnings: usize) -> String {
    let number = |count: usize| Json::Number(count as u64);
    let fields =
        vec![("kind", Json::text("summary")), ("errors", number(errors)), ("warnings", number(warnings))];
    Json::Object(fields).compact() + "\n"
}
