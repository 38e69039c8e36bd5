// The part of Nimbus' interface that is asked for. Field numbers are those of Storm 2.x; fields and
// methods that are not used are left out, which Thrift allows.

struct Nothing {}
struct Stream { 1: string componentId, 2: string streamId }

union Grouping {
  1: list<string> fields, 2: Nothing shuffle, 3: Nothing all, 4: Nothing none, 5: Nothing direct,
  6: Nothing custom_object, 7: binary custom_serialized, 8: Nothing local_or_shuffle
}
struct ComponentCommon { 1: map<Stream, Grouping> inputs, 3: optional i32 parallelism_hint, 4: optional string json_conf }
struct Spout { 2: ComponentCommon common }
struct Bolt { 2: ComponentCommon common }
struct StormTopology { 1: map<string, Spout> spouts, 2: map<string, Bolt> bolts }

struct SupervisorSummary {
  1: string host, 2: i32 uptime_secs, 3: i32 num_workers, 4: i32 num_used_workers, 5: string supervisor_id,
  7: optional map<string, double> total_resources, 8: optional double used_mem, 9: optional double used_cpu,
  12: optional bool blacklisted
}
struct TopologySummary {
  1: string id, 2: string name, 3: i32 num_tasks, 4: i32 num_executors, 5: i32 num_workers, 6: i32 uptime_secs,
  7: string status
}
struct ClusterSummary { 1: list<SupervisorSummary> supervisors, 3: list<TopologySummary> topologies }

struct BoltStats { 4: map<string, map<Stream, i64>> executed, 5: map<string, map<Stream, double>> execute_ms_avg }
struct SpoutStats { 1: map<string, map<string, i64>> acked, 3: map<string, map<string, double>> complete_ms_avg }
union SpecificStats { 1: BoltStats bolt, 2: SpoutStats spout }
struct ExecutorStats { 2: map<string, map<string, i64>> transferred, 3: SpecificStats specific }
struct ExecutorInfo { 1: i32 task_start, 2: i32 task_end }
struct ExecutorSummary {
  1: ExecutorInfo executor_info, 2: string component_id, 3: string host, 4: i32 port, 5: i32 uptime_secs,
  7: optional ExecutorStats stats
}
struct TopologyInfo { 1: string id, 2: string name, 3: i32 uptime_secs, 4: list<ExecutorSummary> executors, 5: string status }

struct WorkerSummary {
  1: optional string supervisor_id, 2: optional string host, 3: optional i32 port, 6: optional i32 num_executors,
  524: optional double assigned_memonheap, 525: optional double assigned_memoffheap, 526: optional double assigned_cpu
}
struct TopologyPageInfo { 1: string id, 16: optional list<WorkerSummary> workers }

struct RebalanceOptions {
  1: optional i32 wait_secs, 2: optional i32 num_workers, 3: optional map<string, i32> num_executors
}

enum AccessControlType { OTHER = 1, USER = 2 }
struct AccessControl { 1: AccessControlType type, 2: optional string name, 3: i32 access }
struct SettableBlobMeta { 1: list<AccessControl> acl, 2: optional i32 replication_factor }
struct BeginDownloadResult { 1: i64 version, 2: string session, 3: optional i64 data_size }

exception KeyNotFoundException { 1: string msg }
exception KeyAlreadyExistsException { 1: string msg }
exception NotAliveException { 1: string msg }
exception AuthorizationException { 1: string msg }
exception InvalidTopologyException { 1: string msg }

service Nimbus {
  ClusterSummary getClusterInfo() throws (1: AuthorizationException aze),
  string getNimbusConf() throws (1: AuthorizationException aze),
  TopologyInfo getTopologyInfo(1: string id) throws (1: NotAliveException e, 2: AuthorizationException aze),
  TopologyPageInfo getTopologyPageInfo(1: string id, 2: string window, 3: bool is_include_sys)
    throws (1: NotAliveException e, 2: AuthorizationException aze),
  string getTopologyConf(1: string id) throws (1: NotAliveException e, 2: AuthorizationException aze),
  StormTopology getUserTopology(1: string id) throws (1: NotAliveException e, 2: AuthorizationException aze),
  string beginCreateBlob(1: string key, 2: SettableBlobMeta meta)
    throws (1: AuthorizationException aze, 2: KeyAlreadyExistsException kae),
  string beginUpdateBlob(1: string key) throws (1: AuthorizationException aze, 2: KeyNotFoundException knf),
  void uploadBlobChunk(1: string session, 2: binary chunk) throws (1: AuthorizationException aze),
  void finishBlobUpload(1: string session) throws (1: AuthorizationException aze),
  BeginDownloadResult beginBlobDownload(1: string key)
    throws (1: AuthorizationException aze, 2: KeyNotFoundException knf),
  binary downloadBlobChunk(1: string session) throws (1: AuthorizationException aze),
  void killTopology(1: string name) throws (1: NotAliveException e, 2: AuthorizationException aze),
  void activate(1: string name) throws (1: NotAliveException e, 2: AuthorizationException aze),
  void deactivate(1: string name) throws (1: NotAliveException e, 2: AuthorizationException aze),
  void rebalance(1: string name, 2: RebalanceOptions options)
    throws (1: NotAliveException e, 2: InvalidTopologyException ite, 3: AuthorizationException aze)
}
