//! One route of the user API: its handler, and all that the OpenAPI document says of it.

use axum::{
    handler::Handler,
    routing::{self, MethodRouter},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::Shared;

/// Makes a type's schema.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers with.
pub(super) enum Answers {
    /// JSON of this type.
    Json(SchemaOf),
    /// Server-sent events of this type.
    Events(SchemaOf),
    /// Bytes as a task wrote them.
    Bytes,
    /// Text of this media type.
    Text(&'static str),
    /// The OpenAPI document.
    Document,
}

/// One route of the user API.
pub(super) struct Route {
    /// In lower case.
    pub(super) method: &'static str,
    /// After [`protocol::api::PREFIX`], with `{name}` for variable parts.
    pub(super) path: &'static str,
    /// A sentence.
    pub(super) summary: &'static str,
    /// Whether it needs no token.
    pub(super) is_open: bool,
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<SchemaOf>,
    pub(super) status: &'static str,
    pub(super) answers: Answers,
    pub(super) handler: MethodRouter<Shared>,
}

impl Route {
    /// A route that needs a token, has no query and no body, and answers with status 200.
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        answers: Answers,
        handler: MethodRouter<Shared>,
    ) -> Route {
        Route {
            method,
            path,
            summary,
            is_open: false,
            query: None,
            body: None,
            status: "200",
            answers,
            handler,
        }
    }

    /// The same without a token.
    pub(super) fn open(self) -> Route {
        Route { is_open: true, ..self }
    }

    /// The same with parameters after the question mark.
    pub(super) fn query<T: JsonSchema>(self) -> Route {
        Route { query: Some(T::json_schema), ..self }
    }

    /// The same with a body of this type.
    pub(super) fn body<T: JsonSchema>(self) -> Route {
        Route { body: Some(schema_of::<T>), ..self }
    }

    /// The same with another status of success.
    pub(super) fn status(self, status: &'static str) -> Route {
        Route { status, ..self }
    }
}

/// Makes this type's schema.
pub(super) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// An answer in JSON of this type.
pub(super) fn json<T: JsonSchema>() -> Answers {
    Answers::Json(schema_of::<T>)
}

/// A route for `GET`.
pub(super) fn get<H: Handler<T, Shared>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    answers: Answers,
    handler: H,
) -> Route {
    Route::new("get", path, summary, answers, routing::get(handler))
}

/// A route for `POST`.
pub(super) fn post<H: Handler<T, Shared>, T: 'static>(
    path: &'static str,
    summary: &'static str,
    answers: Answers,
    handler: H,
) -> Route {
    Route::new("post", path, summary, answers, routing::post(handler))
}
