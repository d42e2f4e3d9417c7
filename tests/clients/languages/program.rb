# Bunny: what the test of this language expects line by line. Arguments: host, port, prefix of names.
require "bunny"

host, port, name = ARGV
connection = Bunny.new(host: host, port: port.to_i, user: "guest", password: "guest", heartbeat: 5,
                       automatically_recover: false, recover_from_connection_close: false)
connection.start
channel = connection.create_channel
channel.confirm_select
exchange = channel.topic("#{name}-exchange", durable: true)
queue = channel.queue("#{name}-queue", durable: true, arguments: { "x-max-length" => 1000 })
queue.bind(exchange, routing_key: "*.orders")
puts "declared and bound"

channel.prefetch(2)
%w[a b c].each { |body| exchange.publish(body, routing_key: "eu.orders", persistent: true, headers: { "number" => 1 }) }
exchange.publish("elsewhere", routing_key: "eu.returns")
puts "confirmed" if channel.wait_for_confirms

seen = Queue.new
consumer = queue.subscribe(manual_ack: true) do |delivery, properties, body|
  if body == "b" && !delivery.redelivered?
    channel.nack(delivery.delivery_tag, false, true)
  else
    raise "headers" unless properties.headers["number"] == 1
    channel.ack(delivery.delivery_tag)
    seen << body
  end
end
puts "consumed #{3.times.map { seen.pop }.sort.join(' ')}"
consumer.cancel

channel.default_exchange.publish("d", routing_key: queue.name)
channel.wait_for_confirms
delivery, _properties, body = queue.pop(manual_ack: true)
channel.ack(delivery.delivery_tag)
puts "got #{body}, then #{queue.pop.last.inspect.sub('nil', 'nothing')}"

begin
  connection.create_channel.queue("#{name}-missing", passive: true)
rescue Bunny::NotFound => error
  puts "refused #{error.channel_close.reply_code} #{error.channel_close.reply_text}"
end
queue.delete
exchange.delete
connection.close
puts "closed"
