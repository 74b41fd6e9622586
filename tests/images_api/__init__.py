"""The images API as others write it down: classes and routes of servers, and the official client."""
