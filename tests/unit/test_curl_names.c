/* The values of libcurl's interface that are declared here, against its headers where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "llm/curl_names.h"

#if defined(__has_include)
#if __has_include(<curl/curl.h>)
#define HAVE_CURL 1
#include <curl/curl.h>
#endif
#endif

static void values_are_those_of_the_headers(void **state) {
    (void)state;
#ifdef HAVE_CURL
    static const long pairs[][2] = {{ORR_CURL_OK, CURLE_OK},
                                    {ORR_CURL_TIMEDOUT, CURLE_OPERATION_TIMEDOUT},
                                    {ORR_CURL_GLOBAL_ALL, CURL_GLOBAL_ALL},
                                    {ORR_CURL_PROTO_HTTP, CURLPROTO_HTTP},
                                    {ORR_CURL_PROTO_HTTPS, CURLPROTO_HTTPS},
                                    {ORR_CURL_WRITEDATA, CURLOPT_WRITEDATA},
                                    {ORR_CURL_URL, CURLOPT_URL},
                                    {ORR_CURL_ERRORBUFFER, CURLOPT_ERRORBUFFER},
                                    {ORR_CURL_WRITEFUNCTION, CURLOPT_WRITEFUNCTION},
                                    {ORR_CURL_POSTFIELDS, CURLOPT_POSTFIELDS},
                                    {ORR_CURL_HTTPHEADER, CURLOPT_HTTPHEADER},
                                    {ORR_CURL_HEADERDATA, CURLOPT_HEADERDATA},
                                    {ORR_CURL_NOPROGRESS, CURLOPT_NOPROGRESS},
                                    {ORR_CURL_POSTFIELDSIZE, CURLOPT_POSTFIELDSIZE},
                                    {ORR_CURL_XFERINFODATA, CURLOPT_XFERINFODATA},
                                    {ORR_CURL_NOSIGNAL, CURLOPT_NOSIGNAL},
                                    {ORR_CURL_HEADERFUNCTION, CURLOPT_HEADERFUNCTION},
                                    {ORR_CURL_TIMEOUT_MS, CURLOPT_TIMEOUT_MS},
                                    {ORR_CURL_CONNECTTIMEOUT_MS, CURLOPT_CONNECTTIMEOUT_MS},
                                    {ORR_CURL_PROTOCOLS, 181}, /* deprecated since 7.85, and kept */
                                    {ORR_CURL_XFERINFOFUNCTION, CURLOPT_XFERINFOFUNCTION},
                                    {ORR_CURL_INFO_RESPONSE_CODE, CURLINFO_RESPONSE_CODE},
                                    {ORR_CURL_ERROR_BYTES, CURL_ERROR_SIZE}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(pairs[i][0], pairs[i][1]);
    }
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_those_of_the_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
