#pragma once
#include "base/buf.h"

/*
 * Messages of the Language Server Protocol on a stream: "Content-Length: N", an empty line, and N bytes
 * of JSON. Pure.
 */
#define ATOLL_LSP_MESSAGE_MAX ((size_t)16 * 1024 * 1024)
#define ATOLL_LSP_HEAD_MAX 1024

/* Finds the first message in n bytes of a stream. 1: *ret is its JSON, which ends at *ret_used. 0: there
 * is no whole message yet, and *ret_used bytes belong to none. -EMSGSIZE: it is longer than
 * ATOLL_LSP_MESSAGE_MAX.
 *
 * The bytes may begin in the middle of a message: the line breaks after a head cannot occur in a string of
 * JSON, so that no text of a message looks like a head. */
struct atoll_lsp_message {
    const uint8_t *json;
    size_t len;
};
int atoll_lsp_next(const uint8_t *bytes, size_t n, struct atoll_lsp_message *ret,
                   size_t *ret_used) ATOLL_MUST_CHECK;

/* Appends a message with this JSON. -ENOBUFS, -ENOMEM. */
int atoll_lsp_append(struct atoll_buf *out, const char *json) ATOLL_MUST_CHECK;
