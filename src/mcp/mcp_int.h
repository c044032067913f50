/* Shared by the files of mcp alone. */
#ifndef ORR_MCP_INT_H
#define ORR_MCP_INT_H

#include "mcp/mcp.h"

enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_UNKNOWN_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_UNSUPPORTED_VERSION = -32022,
    MCP_RESOURCE_NOT_FOUND = -32002 /* of the handshake era */
};

/* What a method answers: a result, or an error. */
typedef struct mcp_answer {
    orr_tree *result; /* NULL: an error */
    int code;
    const char *message;
    orr_tree *data; /* of the error; may be NULL */
} mcp_answer;

mcp_answer mcp_fail(int code, const char *message);
/* "<text> '<what>'" in the request's arena. */
const char *mcp_quote(mcp_session *session, const char *text, const char *what);

/* tools.c */
mcp_answer mcp_list_tools(mcp_session *session);
mcp_answer mcp_call_tool(mcp_session *session, const orr_tree *params);
/* resources.c */
mcp_answer mcp_list_resources(mcp_session *session);
mcp_answer mcp_list_templates(mcp_session *session);
mcp_answer mcp_read_resource(mcp_session *session, const orr_tree *params);
/* A list that may be kept for a while; says so in the era that asks for it. */
void mcp_put_cache(mcp_session *session, orr_tree *result);

#endif
