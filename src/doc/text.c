/* What all readers ask of a text first: its size, its encoding, and places in it. */
#include <string.h>

#include "doc/doc_int.h"

/* Length of the well-formed sequence at p (Unicode 15, table 3-7), 0 when there is none. */
static size_t sequence_length(const unsigned char *p, size_t left) {
    unsigned char c = p[0];
    if (c < 0x80) {
        return 1;
    }
    size_t length = c >= 0xc2 && c <= 0xdf   ? 2
                    : c >= 0xe0 && c <= 0xef ? 3
                    : c >= 0xf0 && c <= 0xf4 ? 4
                                             : 0;
    if (length == 0 || length > left) {
        return 0;
    }
    unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

size_t orr_utf8_prefix(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    size_t i = 0;
    while (i < length) {
        uint64_t word;
        if (length - i >= sizeof word) {
            memcpy(&word, bytes + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        size_t step = sequence_length(bytes + i, length - i);
        if (step == 0) {
            break;
        }
        i += step;
    }
    return i;
}

orr_span orr_doc_locate(const char *name, const char *text, size_t length, size_t offset) {
    orr_span span = {name, 1, 1};
    for (size_t i = 0; i < offset && i < length; i++) {
        if (text[i] == '\n') {
            span.line++;
            span.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            span.column++;
        }
    }
    return span;
}

orr_status orr_doc_check_text(const char *name, const char **text, size_t *length, orr_err *err) {
    if (*length > ORR_DOC_MAX_BYTES) {
        return orr_fail_at(err, ORR_E_LIMIT, (orr_span){.file = name},
                           "the text has %zu bytes, more than the %d that are read", *length,
                           ORR_DOC_MAX_BYTES);
    }
    if (*length >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) {
        *text += 3;
        *length -= 3;
    }
    size_t good = orr_utf8_prefix(*text, *length);
    if (good < *length) {
        (void)orr_fail_at(err, ORR_E_SYNTAX, orr_doc_locate(name, *text, *length, good),
                          "the byte 0x%02x is not UTF-8 text", (unsigned char)(*text)[good]);
        bool packed = *length > 1 && memcmp(*text, "\x1f\x8b", 2) == 0;
        orr_hint(err, packed ? "it is gzip data inside gzip: unpack it once"
                      : memchr(*text, 0, *length) != NULL ? "it is no text at all"
                                                          : "save the file as UTF-8");
        return ORR_E_SYNTAX;
    }
    /* No format here has a use for it, and jansson overlooks one after a number. */
    const char *nul = *length == 0 ? NULL : memchr(*text, 0, *length);
    if (nul != NULL) {
        return orr_fail_at(err, ORR_E_SYNTAX,
                           orr_doc_locate(name, *text, *length, (size_t)(nul - *text)),
                           "the text holds a NUL character");
    }
    return ORR_OK;
}
