# Makes one HTTP request from inside an instance. What is asked comes on standard input, since arguments are for all to see.
import base64, json, sys, urllib.error, urllib.request

ask = json.load(sys.stdin)
request = urllib.request.Request(ask["url"], method=ask["method"], data=ask["body"].encode() or None)
if ask["user"]:
    login = base64.b64encode((ask["user"] + ":" + ask["secret"]).encode()).decode()
    request.add_header("Authorization", "Basic " + login)
try:
    # No proxy: the other end is this machine, or next to it.
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=ask["timeout"])
except urllib.error.HTTPError as error:
    answer = error
except Exception as error:
    sys.exit(str(error))
json.dump({"status": answer.getcode(), "body": answer.read().decode("utf-8", "replace")}, sys.stdout)
