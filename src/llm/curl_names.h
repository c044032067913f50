/* The part of libcurl's stable interface that is used, declared here so that building needs no
 * headers and running needs no library until something is sent. Where the headers are installed,
 * tests/unit/test_curl_names.c proves these values against them. */
#ifndef ORR_LLM_CURL_NAMES_H
#define ORR_LLM_CURL_NAMES_H

enum {
    ORR_CURL_OK = 0,
    ORR_CURL_TIMEDOUT = 28,
    ORR_CURL_GLOBAL_ALL = 3,
    ORR_CURL_PROTO_HTTP = 1,
    ORR_CURL_PROTO_HTTPS = 2,
    /* options: LONG from 0, OBJECTPOINT from 10000, FUNCTIONPOINT from 20000 */
    ORR_CURL_WRITEDATA = 10001,
    ORR_CURL_URL = 10002,
    ORR_CURL_ERRORBUFFER = 10010,
    ORR_CURL_WRITEFUNCTION = 20011,
    ORR_CURL_POSTFIELDS = 10015,
    ORR_CURL_HTTPHEADER = 10023,
    ORR_CURL_HEADERDATA = 10029,
    ORR_CURL_NOPROGRESS = 43,
    ORR_CURL_POSTFIELDSIZE = 60,
    ORR_CURL_XFERINFODATA = 10057,
    ORR_CURL_NOSIGNAL = 99,
    ORR_CURL_HEADERFUNCTION = 20079,
    ORR_CURL_TIMEOUT_MS = 155,
    ORR_CURL_CONNECTTIMEOUT_MS = 156,
    ORR_CURL_PROTOCOLS = 181,
    ORR_CURL_XFERINFOFUNCTION = 20219,
    ORR_CURL_INFO_RESPONSE_CODE = 0x200000 + 2,
    ORR_CURL_ERROR_BYTES = 256
};

#endif
