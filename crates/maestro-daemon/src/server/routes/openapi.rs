use crate::openapi::openapi_json;
use axum::response::IntoResponse;
use http::{HeaderValue, header};

/// Show this document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "openapi",
    operation_id = "getOpenApi",
    responses((status = OK, body = serde_json::Value, description = "An OpenAPI 3.1 document."))
)]
pub(super) async fn get() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], openapi_json())
}
